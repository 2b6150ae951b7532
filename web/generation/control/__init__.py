"""Control of a request over its own fate: the object `cede` of its body, and headers `x-cede-…`, which override it.

- `fields`: the schema, the same for both and for every API, and the `Control` that the engine's request gets of it;
  `CancelNote`: the object `cede` of the answers
- `groups`: the routes of groups

A parser gives `control_of(body.cede)` to the request that it makes; `web.generation.responder` puts the headers over
it.
"""
