"""The pictures of the documentation, as code: `python -m docs.figures` draws them."""
