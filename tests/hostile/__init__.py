"""Requests that no client in its right mind sends, and what becomes of them without a server.

- `values`, `fitting`: JSON values, wild ones and such as a schema allows
- `bodies`, `large`: bodies made of them
- `requests`, `frames`: what is wrong with HTTP/1.1 and with HTTP/2
- `visits`: what is done to stored responses
- `parsers`: each API's parser alone: `python -m tests.hostile --examples 10000`
- `application`, `drawn`: the whole application over the simulated engine, the same with `--application`

`tests.live.hostile` sends them to real servers.
"""
