"""Traces: a span for each request and for each phase of its life, for a collector of OpenTelemetry's.

- `asked`: whether the environment asks for them
- `tracer`: an `Observer` that makes the spans; `request_trace`: those of one request, and what is on them
- `export`: where they go, and whether they get there

Nothing of OpenTelemetry is imported unless traces are asked for.
"""
