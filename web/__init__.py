"""HTTP in front of the engine, and the command line: the only part that knows Quart, Hypercorn, click and pydantic.

Rests on `actors` and `runtime`, neither of which imports from here.  What can be told without a model is told without
torch: `commands`, `limits`, `options` and `process` do not import it.

    server        run_server, ServerOptions, Entrance, serve_engine: what is open, in which order, and how it ends
    app           create_app: the endpoints over an engine
    hooks         ServerHooks: what changes a server beyond its options, such as faults
    options       the options that are the server's own
    limits        Limits, and the bounds on the fields of a request
    stopping      what tells a server to end
    commands      `cede serve`, `config`, `doctor`, `kv`, and those that packages add
    page          the page at `/`
    npm_archive   packages of npm's registry, of which `page` and `openapi` have files
    inspection    health, slots, live requests, receipts, statistics
    anthropic     Anthropic's Messages API
    ollama        Ollama's API
    utilities     tokens, prompts and properties, for llama-server's and vLLM's clients
    metrics       what the engine does, in numbers for Prometheus
    recording     what the engine does, as a picture for Perfetto
    tracing       a span for each request and each of its phases, for OpenTelemetry
    openai        OpenAI's API: schemas, jobs for the engine, responses
    responses     OpenAI's Responses API
    infill        llama-server's and Mistral's endpoints that fill in the middle
    model_routes  the model that is served, for OpenAI's and Anthropic's clients
    openapi       the OpenAPI document of all that is served
    generation    what every API's generation endpoints share
    embeddings    texts as vectors, whatever the API
    control       what a request says of its own fate, and groups
    detached      requests that may outlive their clients
    storage       objects that outlive their requests
    passed_over   what clients send and nothing here reads
    errors        what went wrong, and how each API writes it
    bodies        request bodies that are read, and response bodies that are sent, in bounded pieces
    http          connections, and whom browsers may speak for
    access        API keys, and what each may take
    logs          the log, as text or as JSON
    process       signals, standard streams, file descriptors
    cluster       many engines behind one front door
    ranks         the processes that compute a model together with this one
    testing       planned faults
    selftest      what `cede doctor --self-test` checks through a socket
"""
