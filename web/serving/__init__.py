"""A server, from start to exit.

server    run_server, ServerOptions, Entrance, serve_engine: what is open, in which order, and how it ends
app       create_app: the routes over an engine
stopping  what tells a server to end
ranks     open_ranks: the processes that compute a model together with this one (`runtime.devices.parallel`)
"""
