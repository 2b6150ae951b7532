"""Proxy between clients and Dynamo's HTTP server: the connections, limits and rules of any server of cede's.

For `web.cluster.front_door`.  Dynamo listens by itself, and can neither be told which hosts and origins to refuse nor
for how long to wait for a client.  So it listens where nobody else asks, and each request passes through here.

    exchange  Exchange: one request to Dynamo's server, and its answer
    passage   Passage: the application that passes requests on
"""
