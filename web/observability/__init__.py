"""Views of a server: of its state while it works, and of what it did.

page        the page at `/`
inspection  health, slots, live requests, receipts, statistics, events
metrics     what the engine does, in numbers for Prometheus
recording   what the engine does, as a picture for Perfetto
tracing     a span for each request and each of its phases, for OpenTelemetry
logs        the log, as text or as JSON
"""
