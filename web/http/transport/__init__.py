"""Connections and the protocols on them, in place of parts of Hypercorn (DESIGN section 10 gives the reasons).

`serve.serve_connections` accepts connections and gives each a `connection.Connection`, whose tasks read, write and
handle its bytes.  `protocols` chooses HTTP/1.1 or HTTP/2, and `task_group` runs each request in a cancel scope of its
own.  Applications see of this room only the `task_group.RequestScope` in their ASGI scope.  It may import
`web.limits` and `web.process`, and nothing of cede's APIs.
"""
