"""HTTP in front of the engine, and the command line: the only part that knows Quart, Hypercorn, click and pydantic.

Rests on `actors` and `runtime`, neither of which imports from here.  What can be told without a model is told without
torch: `commands` and `process` (but for `process.hooks`) do not import it.  Each may use those below it:

    commands       the command line: `cede serve` and all others, those that packages add among them
    testing        planned faults
    selftest       what `cede doctor --self-test` checks through a socket
    cluster        many engines behind one front door
    serving        the server from start to exit, and the application: which routes there are
    apis           OpenAI's, Anthropic's, Ollama's and llama-server's APIs, one folder each
    observability  what is looked at: state and events, metrics, traces, recordings, the log, the page at `/`
    generation     what every API's generation endpoints share
    storage        what outlives its request: stored objects, and detached requests
    openapi        the OpenAPI document of all that is served
    bodies         request bodies that are read, response bodies that are sent, in bounded pieces; errors
    http           connections, and whom browsers may speak for
    process        options, bounds and keys; signals, standard streams, file descriptors
"""
