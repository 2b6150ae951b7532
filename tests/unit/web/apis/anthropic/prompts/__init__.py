"""Unit tests of `web.apis.anthropic.prompts`: what a body asks of the model."""
