"""The process itself, which serves or is about to: what it was told, whom it serves, and what it has of the system.

- `options`: the options that are the server's own; `limits`: `Limits`, and the bounds on the fields of a request
- `hooks`: `ServerHooks`, what changes a server beyond its options, such as faults
- `access`: API keys, and what each may take
- `signals`, `streams`, `descriptors`: signals, standard streams, file descriptors
- `tracebacks`: the memory that exceptions keep alive
- `torch_settings`: what the libraries below torch read once
- `failures`: what a command says when it fails
- `version`: which cede this is

It imports nothing else of `web`.
"""
