"""Feed of what all workers do, for whoever watches at the control address: `GET /v1/events`.

A worker tells of itself, frame by frame, as it does at its own address, through a stream of Dynamo's; each reader has
such a stream of each worker, and it ends with the reader.  What a reader has not taken is bounded: a frame for each
worker, into which later ones are merged.

    teller    Teller: at a worker, its frames, for whoever asks through Dynamo
    untaken   Untaken: what a reader has not taken yet
    follower  Follower: the streams of all workers, for one reader
    routes    the route, and ClusterStream: the body of its response
"""
