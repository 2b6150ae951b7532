"""The process itself: its signals (`signals`), standard streams (`streams`), file descriptors (`descriptors`), and
the memory that exceptions keep alive (`tracebacks`).

Whoever runs a process or serves requests in it may use this room.  It rests on `web.limits` and knows nothing of HTTP.
"""
