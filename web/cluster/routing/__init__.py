"""Events for the front door's router, so that a request goes where its KV is.

For `web.cluster.worker`, which has the publisher; Dynamo is not imported here.

    block_events  BlockEvents: from blocks that come and go to Dynamo's KV events
"""
