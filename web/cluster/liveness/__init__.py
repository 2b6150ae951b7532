"""What a worker does that a cluster no longer knows.

For `web.cluster.worker`; asyncio and Dynamo are not imported here.

    presence  watch_presence: stops a worker that discovery has forgotten
"""
