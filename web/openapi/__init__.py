"""The OpenAPI document of everything that is served, and the page that shows it.

- `operations`: `Api` and `Operation`, in which each API says what its routes take and answer, as plain data
- `schemas`: pydantic's models as the document's named schemas
- `document`: makes the document of them
- `routes`: serves it, and the page
- `viewer_files`: the page's files, which are in `viewer` and come with the wheel

An API's package has its operations beside its routes and imports `operations` alone; `web.app` knows all of them.
"""
