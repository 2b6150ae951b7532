"""Unit tests of `web.apis.anthropic.answers`: streams and whole messages, against the models of the official client."""
