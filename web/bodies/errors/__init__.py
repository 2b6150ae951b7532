"""Errors as responses: one description for all APIs, and the error object of the API that was asked.

- `problem`: `Problem`, what went wrong, made in one place from whatever was raised; `ErrorShape`, how one API writes
  one, and `ErrorShapes`, which finds it by the request's path
- `handlers`: `install_error_handlers`, by which every exception of an application becomes an error object

An API's own shape is in its own package; OpenAI's, in which others answer as well, in
`web.generation.openai_format`.  Handlers raise errors, and build no responses for them.
"""
