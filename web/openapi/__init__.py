"""The OpenAPI document of everything that is served, and the page that shows it.

- `operations`: `Api` and `Operation`, in which each API says what its routes take and answer, as plain data
- `schemas`: models, `TypedDict`s and dataclasses as the document's named schemas
- `document`: makes the document of them
- `routes`: serves it, and the page
- `viewer_files`: the page's files, which are in `viewer` and come with the wheel; `npm_archive`: packages of npm's
  registry, of which they are, and some of `web.observability.page`

An API's package has its operations beside its routes and imports `operations` alone; `web.serving.app` knows all of
them.
"""
