"""`--record FILE`: what the engine did, as a file that Perfetto and Chrome's tracing page open.

- `trace_events`: the format, which tracks there are, and a step, which becomes text where it is written
- `recorder`: an `Observer` that turns the engine's events into spans, whole ones only, while a server serves
- `file`: a bounded buffer, and the thread that writes it
"""
