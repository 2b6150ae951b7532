"""Unit tests of `web.anthropic.answers`: streams and whole messages, against the models of the official client."""
