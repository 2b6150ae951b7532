"""HTTP, independent of any API: what surrounds a request from the socket to its handler.

`transport` (a package of its own) serves connections.  Here are the ASGI side of a request (`asgi`), the bound on the
bytes of request bodies (`body_budget`), what web pages may do (`browser_policy`), how Hypercorn is to behave
(`hypercorn_config`), and the listening sockets (both in `listeners`).  This package rests on `web.process`.
"""
