"""What `deploy/` says of containers and services is true of the repository.  Nothing here could start them."""

from __future__ import annotations

import json
import plistlib
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from web.commands.main import main
from web.commands.options.definitions import DEFINITIONS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose" / "compose.yml"
KUBERNETES = "1.33"
IMAGE = "cede-cluster"
VARIABLES = {definition.variable: definition for definition in DEFINITIONS.values()}
Json = dict[str, Any]

MANIFESTS = [
    (path.name, document)
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    if document["kind"] != "Kustomization"
]
ENTRIES = [pytest.param(document, id=f"{name}-{document['kind']}") for name, document in MANIFESTS]
DEPLOYMENTS = {document["metadata"]["name"]: document for _, document in MANIFESTS if document["kind"] == "Deployment"}
OURS = ["worker", "front-door"]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, with their arguments."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line.strip()]


def parse(arguments: list[str]) -> None:
    """Parse a command line of `cede`.  Raises click.ClickException."""
    context = click.Context(main)
    command = main.get_command(context, arguments[0])
    assert command is not None
    command.make_context(arguments[0], arguments[1:], context)


def check_environment(environment: dict[str, str], command: str = "worker") -> None:
    """Our own variables are those that there are, and have values that the command's options take."""
    for variable, value in environment.items():
        if variable.startswith("CEDE_"):
            parse([command, VARIABLES[variable].flags[0], str(value)])


def pod(name: str) -> Json:
    """The specification of a deployment's pods."""
    spec: Json = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    return spec


# --- the image ------------------------------------------------------------------------------------------------------


def test_the_image_is_built_from_what_is_there_and_runs_what_cede_understands() -> None:
    found = instructions()
    copied = [part for name, rest in found if name == "COPY" and "--from" not in rest for part in rest.split()[:-1]]
    assert [part for part in copied if not (ROOT / part).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert [part for part in copied if f"!{part}" not in ignored] == []
    last = dict(found)  # of each kind
    assert json.loads(last["ENTRYPOINT"]) == ["cede"]
    parse(json.loads(last["CMD"]))
    assert last["USER"] not in ("root", "0")


def test_the_image_has_the_torch_that_cede_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (torch,) = [needed for needed in project["dependencies"] if needed.startswith("torch==")]
    assert any(f" {torch} " in rest for name, rest in instructions() if name == "RUN")


def test_the_formula_and_the_citation_are_of_the_version_that_is_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"/cede-{project['version']}.tar.gz" in (DEPLOY / "homebrew" / "cede.rb").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])


# --- services -------------------------------------------------------------------------------------------------------


def check_service(command: list[str], environment: dict[str, str], seconds: int) -> None:
    """It runs what cede understands, and waits for its end as long as that may take."""
    assert Path(command[0]).name == "cede"
    parse(command[1:])
    check_environment(environment, command[1])
    assert seconds > DEFINITIONS["grace"].default


def test_systemd_runs_what_cede_understands() -> None:
    text = (DEPLOY / "systemd" / "cede.service").read_text(encoding="utf-8")
    said = re.findall(r"^#?([A-Z]\w+)=(.+)$", text, re.MULTILINE)  # what is commented out, too
    environment = dict(value.split("=", 1) for key, value in said if key == "Environment")
    del environment["CEDE_API_KEY_FILE"]  # a file that only systemd makes
    check_service(shlex.split(dict(said)["ExecStart"]), environment, int(dict(said)["TimeoutStopSec"]))


def test_launchd_runs_what_cede_understands() -> None:
    agent = plistlib.loads((DEPLOY / "launchd" / "local.cede.plist").read_bytes())
    check_service(agent["ProgramArguments"], agent["EnvironmentVariables"], agent["ExitTimeOut"])
    assert agent["Label"] == "local.cede"


# --- the compose file -----------------------------------------------------------------------------------------------


def test_what_compose_starts_is_there_and_understood() -> None:
    compose = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    services: Json = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (COMPOSE.parent / source).exists() if source.startswith(".") else source in compose["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        if service["image"] == IMAGE:
            parse(service["command"])
            environment = {key: re.sub(r"\$\{\w+:-(.*)\}", r"\1", str(v)) for key, v in service["environment"].items()}
            check_environment(environment, service["command"][0])
            assert int(service["stop_grace_period"].removesuffix("s")) > int(environment.get("CEDE_GRACE", 0))
            build = service["build"]
            assert (COMPOSE.parent / build["context"] / build["dockerfile"]).exists()


def test_compose_publishes_the_front_door_and_its_control_address() -> None:
    front_door = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["front-door"]
    port = front_door["environment"]["CEDE_CONTROL_PORT"]
    assert front_door["ports"] == ["127.0.0.1:8000:8000", f"127.0.0.1:{port}:{port}"]


def test_prometheus_reads_the_workers_under_the_name_that_the_alerts_take_for_granted() -> None:
    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    (job,) = yaml.safe_load((COMPOSE.parent / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert job["job_name"] == "cede"
    workers = {f"{name}:8000" for name, service in services.items() if service.get("command") == ["worker"]}
    assert set(job["static_configs"][0]["targets"]) == workers


# --- Kubernetes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", ENTRIES)
def test_a_manifest_is_what_its_schema_allows(manifest: Json) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_noticed() -> None:
    manifest = json.loads(json.dumps(DEPLOYMENTS["worker"]))
    manifest["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_the_kustomization_names_every_manifest() -> None:
    folder = DEPLOY / "kubernetes"
    named = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert sorted([*named, "kustomization.yaml"]) == sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", OURS)
def test_a_pod_runs_what_cede_understands_and_has_the_time_that_it_asks_for(name: str) -> None:
    spec = pod(name)
    (container,) = spec["containers"]
    parse(container["args"])
    environment = {item["name"]: item["value"] for item in container["env"] if "value" in item}
    check_environment(environment, name)
    assert spec["terminationGracePeriodSeconds"] > int(environment.get("CEDE_GRACE", 0))
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        ((_, asked),) = [item for item in container[probe].items() if item[0] in ("httpGet", "tcpSocket")]
        assert asked["port"] in ports
        assert name != "worker" or container[probe]["httpGet"]["path"] == "/health"


def test_the_control_address_is_served_and_no_other_pod_reaches_it() -> None:
    (container,) = pod("front-door")["containers"]
    (said,) = [item["value"] for item in container["env"] if item["name"] == "CEDE_CONTROL_PORT"]
    assert {"name": "control", "containerPort": int(said)} in container["ports"]
    found = {(document["kind"], document["metadata"]["name"]): document.get("spec", {}) for _, document in MANIFESTS}
    assert [port["targetPort"] for port in found["Service", "control"]["ports"]] == ["control"]
    assert found["Service", "control"]["selector"] == found["Service", "front-door"]["selector"]
    assert found["NetworkPolicy", "front-door"]["ingress"] == [{"ports": [{"port": "http"}]}]


def test_whatever_selects_pods_selects_some() -> None:
    labels = [document["spec"]["template"]["metadata"]["labels"] for document in DEPLOYMENTS.values()]
    for _, document in MANIFESTS:
        spec = document.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector") or {}
        selector = selector.get("matchLabels", selector)
        assert any(selector.items() <= of_pod.items() for of_pod in labels), document["metadata"]


def test_no_secret_is_written_down() -> None:
    assert "Secret" not in {document["kind"] for _, document in MANIFESTS}
    secret = {definition.variable for definition in DEFINITIONS.values() if definition.option.secret}
    assert secret
    named = {item["name"] for name in OURS for item in pod(name)["containers"][0]["env"] if "value" in item}
    assert not named & secret
