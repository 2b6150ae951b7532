"""Translation of the front door's requests for the engine, and of the engine's answers for the front door.  All pure.

For `web.cluster.backend`.

    requests      from what the front door asks to a body that cede's own parser checks
    chunks        from an engine's events to what the front door is told
    output_mark   where an output begins, for the worker at which it goes on
"""
