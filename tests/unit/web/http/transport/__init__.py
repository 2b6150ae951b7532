"""Unit tests of `web.http.transport`, module by module.

- `guarded`: an application behind `serve_connections`, and raw clients, which use h11 and h2 only to parse.
"""
