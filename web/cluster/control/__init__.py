"""Control across the workers of a cluster: what lives on each, what cancels cost, and the end of a request or a group.

Each worker answers questions at an endpoint of Dynamo's, beside the one that generates (`web.cluster.peers`); so
whoever asks has to know neither addresses nor keys, and finds the workers as a front door does.

    questions   the questions there are, and what is asked with each
    desk        Desk: answers them, at a worker; FrontDoorSight: what is for whoever asks
    succession  Succession: which of the requests of one name is the newest, whichever worker each came to;
                Successors: tells the other workers of those that come to this one
    feed/       what all workers do, while they do it
    answers     what is answered
    routes      the routes of the control address, over HTTP, and one answer out of those of all workers
"""
