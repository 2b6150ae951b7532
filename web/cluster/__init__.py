"""Many engines behind one front door, on NVIDIA Dynamo (the extra `cede[cluster]`, for Linux).

For `web.commands`; rests on the server and on OpenAI's completions, whose parser checks what the front door passes on.
asyncio is imported here and nowhere else, and so is Dynamo; both are for the front door's side of a worker.  Trio runs
as a guest on that loop, so all of a worker is one thread but for what Dynamo and the device do in theirs.

    settings      whether Dynamo is there, and what it is told by its environment
    translation/  between the front door's words and the engine's
    failures      which errors move a request to another worker, and which the client is told
    guest         run_as_guest: a Trio program on asyncio's loop
    handoff       from a Trio task to an asyncio generator, one piece at a time
    backend       Backend: a request of the front door's is a request of the engine's
    card          what the front door has to know of a model
    membership    Membership: a worker in discovery, or out of it
    stall         StallWatch: leaves discovery for a loop that does not turn
    liveness      what a worker does when discovery has forgotten it, or what it had written there
    worker        WorkerHooks: what makes a server a worker
    peers         Peers: workers that are asked, by a front door or by one another
    control/      what they are asked, and the routes of the control address
    routing       BlockEvents: what the front door's router is told of KV blocks
    door/         what every request passes on its way to Dynamo's HTTP server
    front_door    run_front_door: Dynamo's HTTP server and router, behind the door
    children      run_children: the front door and its workers as child processes
"""
