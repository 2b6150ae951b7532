"""From what a user calls a model to its files on disk: a path, a hub id, a package, a short name.

The package knows names, places and downloads, and nothing of what is in a model; torch is not imported.  It rests on
`runtime.common` and `runtime.errors` alone.

- `resolve`: `resolve_model`, the one entry, and `embedded_draft`
- `names`: `parse_name`, what a name stands for; `catalogue`: the short names; `gguf_names`: which files of many
- `hub`: `download` from the Hugging Face hub, into the hub's own cache; `hub_cache`: what is in it
- `packages`: models out of packages of Python; `folder`: `ModelsFolder`, where they are kept
- `held`: what is here, and removing it
- `failures`, `hub_failures`: reasons in plain words; `progress`: who is told how a download goes on
"""
