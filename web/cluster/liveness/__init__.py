"""Checks of a worker against discovery: what it does when a cluster no longer knows it.

For `web.cluster.worker`.  asyncio and Dynamo are not imported here.

    entries   keep_entries: writes again what a worker had written there, where discovery is a folder
    presence  watch_presence: stops a worker that discovery has forgotten all the same
"""
