"""Check of whether an environment asks for traces."""

from __future__ import annotations

import subprocess
import sys

import pytest

from web.observability.tracing.asked import TracingError, traces_are_asked_for

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, False),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        ({"OTEL_SERVICE_NAME": "x"}, False),
    ],
)
def test_an_exporter_or_a_collectors_address_asks_for_traces(environment: dict[str, str], asked: bool) -> None:
    assert traces_are_asked_for(environment) is asked


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'; it can be otlp or none"),
        (
            ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; only http/protobuf",
        ),
    ],
)
def test_what_is_not_spoken_is_refused_by_name(environment: dict[str, str], says: str) -> None:
    with pytest.raises(TracingError) as refused:
        traces_are_asked_for(environment)
    assert str(refused.value).startswith(says)


def test_without_the_packages_it_is_said_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.observability.tracing.asked.MODULES", ("opentelemetry.sdk", "not_there.at_all"))
    with pytest.raises(TracingError) as refused:
        traces_are_asked_for(ENDPOINT)
    assert "pip install 'cede[otel]'" in str(refused.value)


def test_nothing_of_opentelemetry_is_imported_by_a_server_that_is_not_asked() -> None:
    loaded = "[name for name in sys.modules if 'opentelemetry' in name]"
    source = f"import sys, web.serving.server, web.commands.main; print({loaded})"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
