"""Connections and the protocols on them, in place of parts of Hypercorn (DESIGN section 10 gives the reasons).

`serve.serve_connections` accepts connections and gives each a `connection.Connection`, whose tasks read, write and
handle its bytes.  `protocols` chooses HTTP/1.1 or HTTP/2, and `task_group` runs each request in a cancel scope of its
own.  HTTP/2 is `http2`, over h2's machine (`h2_connection`), within a `frame_budget`.  `writer` sends, from a
`byte_queue`; `idle_timer` and `loop_share` bound idleness and work; `context` is what a connection is given.
Applications see of this package only the `task_group.RequestScope` in their ASGI scope.  It may import
`web.process`, and nothing of cede's APIs.
"""
