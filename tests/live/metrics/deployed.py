"""Contents of `deploy/` for Prometheus and Grafana, as tests look at them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.live.server import ROOT

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "cede.json"
NAME = re.compile(r"\bcede_\w+")
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
VARIABLES = {"$model_name": ".*", "$instance": ".*", "$__rate_interval": "5m"}


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    model: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return model


def dashboard_expressions() -> Iterator[str]:
    """Yield what the panels ask for, with a value for each of Grafana's variables."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            yield expression


def exposed(page: str) -> set[str]:
    """Return the names of all series that a page of metrics can have, of which some may have no sample yet."""
    names = set()
    for family in text_string_to_metric_families(page):
        name = family.name + ("_total" if family.type == "counter" else "")
        names |= {name + suffix for suffix in SUFFIXES[family.type]}
    return names
