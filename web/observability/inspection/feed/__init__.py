"""Feed of what the engine does, for whoever watches: `GET /v1/events`.

    records     Record: an event as it is told, and whom it may be told
    ring        Ring: the newest records, and from where on a viewer has not read them
    feed        Feed: an `Observer` that fills the ring, while there are viewers
    state       how the engine stands, as one of them may see it
    frames      Frames: what a viewer is told at a time
    stream      FeedStream: the body of a response
    routes      the route
    operations  what the OpenAPI document says of it
    answers     what a frame has, for that document and for mypy

Nobody is waited for.  Each frame of the stream says how the engine stands and what has happened since the frame before;
a viewer that reads too slowly loses events, and the next frame says how many.
"""
