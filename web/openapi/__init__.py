"""The OpenAPI document of everything that is served, and the page that shows it.

- `operations`: `Api`, which declares each route at its handler, for the application and for the document at once
- `schemas`: models, `TypedDict`s and dataclasses as the document's named schemas
- `document`: makes the document of them
- `routes`: serves it, and the page
- `viewer_files`: the page's files, which are in `viewer` and come with the wheel; `npm_archive`: packages of npm's
  registry, of which they are, and some of `web.observability.page`

An API's routes are declared where their handlers are; the document is made of what the application has.
"""
