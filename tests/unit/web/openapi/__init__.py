"""Tests of `web.openapi`: the document is in order, and true."""
