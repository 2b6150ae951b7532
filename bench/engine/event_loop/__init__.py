"""Programs that measure what the event loop's thread does: `python -m bench.engine.event_loop.cpu_time`.

- `client`: the client, a process of its own on plain sockets
- `cpu_time`: the server, and the CPU time of its event loop
- `shares`: a profile by who has the code that ran
"""
