"""Check of whether the environment asks for traces, by the variables that OpenTelemetry's specification names.

Only what decides about that is read here; the SDK reads the rest, such as the collector's address, when it is opened.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from runtime.common.log_text import literal
from runtime.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Mapping

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
MODULES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class TracingError(CedeError):
    """Traces are asked for in a way that is not served here."""


def traces_are_asked_for(environment: Mapping[str, str]) -> bool:
    """Return whether traces are to be exported: an exporter is named, or a collector's address is there.

    Raises:
        TracingError: another exporter or protocol is asked for than there is, or the packages are not installed.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter == "none" or not (exporter or any(environment.get(name) for name in ENDPOINTS)):
        return False
    if exporter not in ("", "otlp"):
        raise TracingError(f"OTEL_TRACES_EXPORTER is {literal(exporter)}; it can be otlp or none")
    for name in PROTOCOLS:
        if protocol := environment.get(name):
            if protocol != PROTOCOL:
                raise TracingError(f"{name} is {literal(protocol)}; only {PROTOCOL} is spoken")
            break
    if not all(map(_is_installed, MODULES)):
        raise TracingError("OTEL_ variables ask for traces, which want more packages: pip install 'cede[otel]'")
    return True


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
