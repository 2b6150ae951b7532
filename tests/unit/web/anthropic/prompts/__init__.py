"""Unit tests of `web.anthropic.prompts`: what a body asks of the model."""
