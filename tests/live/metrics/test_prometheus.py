"""A real Prometheus reads a real server, and after a storm of hang-ups its counters are the receipts."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.metrics.deployed import ALERTS, NAME, dashboard_expressions
from tests.live.server import PATIENCE, ROOT, Json, Server, wait_for
from web.http.listeners import bound_sockets

PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
ALERTS_TEST = ROOT / "tests" / "live" / "metrics" / "alerts.test.yml"
NOT_YET = {"cede_request_failures_total", "cede_requests_refused_total"}  # no sample before the first error or refusal
needs_prometheus = pytest.mark.skipif(
    PROMTOOL is None or PROMETHEUS is None, reason="there is no Prometheus here (Debian: apt-get install prometheus)"
)


def page(server: Server) -> str:
    """Return what GET /metrics tells."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=PATIENCE) as response:
        text: str = response.read().decode()
    return text


@contextmanager
def prometheus(server: Server, folder: Path, *rules: Path) -> Iterator[str]:
    """Run a Prometheus that asks the server, and evaluates files of rules, each second; its own URL."""
    host, port = server.address
    config = folder / "prometheus.yml"
    target = {"job_name": "cede", "static_configs": [{"targets": [f"{host}:{port}"]}]}
    often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    files = [str(path) for path in rules]
    config.write_text(json.dumps({"global": often, "rule_files": files, "scrape_configs": [target]}))
    assert PROMETHEUS is not None
    with bound_sockets("127.0.0.1", 0) as (own,):
        arguments = [
            *(PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
            *(f"--web.listen-address=127.0.0.1:{own.getsockname()[1]}", "--log.level=error"),
        ]
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                yield f"http://127.0.0.1:{own.getsockname()[1]}"
            finally:
                process.terminate()


def query(url: str, expression: str) -> list[dict[str, Any]]:
    """Return the samples of an expression.  Raises OSError if it is wrong, or nobody answers."""
    asked = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(asked, timeout=PATIENCE) as response:
        result: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return result


def is_ready(url: str) -> bool:
    """Return whether Prometheus answers."""
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=PATIENCE):
            return True
    except OSError:
        return False


def documented() -> list[str]:
    """Return the expressions that the page of the documentation shows."""
    page = (ROOT / "docs" / "use" / "metrics.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in page.splitlines() if line.startswith("    ") and "cede_" in line]
    return [line.partition("  #")[0] for line in lines]


def check_cancels(url: str, receipts: list[Json]) -> None:
    """Check that the counters of cancels are the receipts, and that what the documentation shows can be asked."""

    def values(expression: str) -> list[float]:
        return [float(sample["value"][1]) for sample in query(url, expression)]

    by_reason = query(url, "sum by (reason) (cede_cancels_total)")
    assert {sample["metric"]["reason"]: sample["value"][1] for sample in by_reason} == {"client_disconnect": "6"}
    for name, field in (("kept", "kept_tokens"), ("wasted", "wasted_tokens")):
        assert values(f"cede_cancel_{name}_tokens_total") == [sum(receipt[field] for receipt in receipts)]
    assert (values("cede_cancel_slot_freed_seconds_count"), values("cede_num_requests_running")) == ([6], [0])
    assert len([query(url, expression) for expression in documented()]) == 5
    assert values("histogram_quantile(0.99, cede_cancel_slot_freed_seconds_bucket)")[0] > 0


def storm(server: Server) -> None:
    """Hang up six times, and wait until all has ended."""
    for number in range(6):
        body = {"prompt": f"import os  # {number}", "max_tokens": 3000, "stream": True, "ignore_eos": True}
        request = urllib.request.Request(f"{server.url}/v1/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            response.readline()
    server.wait_idle()


def alerts(url: str) -> list[dict[str, Any]]:
    """Return the rules that Prometheus has loaded, with what came of them."""
    with urllib.request.urlopen(f"{url}/api/v1/rules", timeout=PATIENCE) as response:
        groups = json.load(response)["data"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


@needs_prometheus
def test_prometheus_own_checker_has_no_objection(four_slots: Server) -> None:
    assert PROMTOOL is not None
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=page(four_slots), capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@needs_prometheus
@pytest.mark.parametrize("command", [("check", "rules", ALERTS), ("test", "rules", ALERTS_TEST)], ids=["valid", "fire"])
def test_the_alerts_are_valid_and_fire_when_they_should(command: tuple[str | Path, ...]) -> None:
    assert PROMTOOL is not None
    checked = subprocess.run([PROMTOOL, *command], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_prometheus
def test_after_a_storm_of_hang_ups_each_expression_finds_what_it_asks_for(
    tmp_path: Path,
) -> None:
    with (
        ForkedServer(tmp_path, "--slots", "2", "--kv-dir", str(tmp_path / "kv")) as server,
        prometheus(server, tmp_path, ALERTS) as url,
    ):
        storm(server)
        wait_for(lambda: is_ready(url), "Prometheus to answer")
        last = ("cede_cancels_total", "cede_request_success_total")  # no series begins later than these
        seen_twice = " and ".join(f"min(count_over_time({name}[5m])) >= 2" for name in last)
        wait_for(lambda: query(url, seen_twice), "Prometheus to know rates")
        check_cancels(url, server.get("/v1/receipts")["data"])
        asked = list(dashboard_expressions())
        assert len(asked) > 50
        empty = {expression for expression in asked if not query(url, expression)}
        assert {name for expression in empty for name in NAME.findall(expression)} == NOT_YET
        wait_for(lambda: all(rule["health"] != "unknown" for rule in alerts(url)), "all rules to be evaluated")
        rules = alerts(url)
        assert len(rules) == ALERTS.read_text(encoding="utf-8").count("alert:") > 0
        assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
        assert {rule["name"]: rule["state"] for rule in rules if rule["state"] == "firing"} == {}
