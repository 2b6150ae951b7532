"""Prometheus's metrics: what the engine does, as counters and histograms, and how it stands, as gauges.

    recorder       Instruments: the counters and histograms; Recorder: an `Observer` that feeds them
    snapshot       Snapshot: how the engine stands, and what it counts anyway; read when it is asked for
    dialects       under which names the figures are told: cede's, vLLM's, llama-server's
    metrics        Metrics: all of it, for one engine, and GET /metrics

For the application.  It rests on `prometheus_client` and on the seams of `actors`: `Observer` and frozen statistics.
"""
