"""Metrics of real servers, as Prometheus reads them."""
