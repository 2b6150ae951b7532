"""Outputs of prompts besides KV, with the whole engine."""
