"""The process itself, which serves or is about to.

Its signals (`signals`), standard streams (`streams`), file descriptors (`descriptors`), and the memory that exceptions
keep alive (`tracebacks`).  This room rests on `web.limits` and knows nothing of HTTP.
"""
