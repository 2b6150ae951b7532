"""Feed of what the engine does, for whoever watches: `GET /v1/events`.

    records     Record: an event as it is told, and whom it may be told; Ring: the newest of them
    feed        Feed: an `Observer` that fills the ring, while there are viewers
    frames      Frames: what a viewer is told at a time, and how the engine stands; FeedStream: the body of a response
    routes      the route
    answers     what is told

Nobody is waited for.  Each frame of the stream says how the engine stands and what has happened since the frame before;
a viewer that reads too slowly loses events, and the next frame says how many.
"""
