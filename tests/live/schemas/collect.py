"""Chooses the schemas of `data` from unpacked packages of PyPI and npm.

    python -m tests.live.schemas.collect --functions BFCL_EVAL --files CHECK_JSONSCHEMA --rest OCTOKIT --suite JSON

Of each source, what is larger than `LARGEST` is left out; the rest is ordered by size and cut into thirds, small,
medium and large, and of each third those with the smallest SHA-256 of their names are taken, an equal number of each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

Schemas = dict[str, Any]

DATA = Path(__file__).parent / "data"
LARGEST = 24_000  # characters of compact JSON
TAKEN = {"functions": 42, "rest": 26, "files": 10, "suite": 22}
TYPES = {"dict": "object", "float": "number", "tuple": "array"}  # the function list's words
DRAFT = "draft2020-12"


def functions(folder: Path) -> Iterator[tuple[str, Schemas]]:
    """Yield the parameters of functions that models are asked to call."""
    for name in ("simple_python", "live_simple", "live_multiple"):
        for line in (folder / "bfcl_eval" / "data" / f"BFCL_v4_{name}.json").read_text().splitlines():
            task = json.loads(line)
            for function in task["function"]:
                yield function["name"], _in_json_schema(function["parameters"])


def _in_json_schema(value: Any) -> Any:  # noqa: ANN401  of JSON
    if isinstance(value, list):
        return [_in_json_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _in_json_schema(item) for key, item in value.items()}
    if inner.get("type") == "any":
        del inner["type"]
    if isinstance(inner.get("type"), str):
        inner["type"] = TYPES.get(inner["type"], inner["type"])
    return inner


def files(folder: Path) -> Iterator[tuple[str, Schemas]]:
    """Yield the schemas of configuration files."""
    for path in sorted((folder / "check_jsonschema" / "builtin_schemas").rglob("*.json")):
        yield path.name, json.loads(path.read_text())


def rest(folder: Path) -> Iterator[tuple[str, Schemas]]:
    """Yield what a REST API answers with, each with what it refers to."""
    schemas = json.loads((folder / "package/generated/api.github.com.json").read_text())["components"]["schemas"]
    for name, schema in schemas.items():
        needed: dict[str, Any] = {}
        _note_needed(schema, schemas, needed)
        definitions = {"$defs": _pointing_to_defs(needed)} if needed else {}
        yield name, {**_pointing_to_defs(schema), **definitions}


def _note_needed(value: Any, schemas: Mapping[str, Any], needed: dict[str, Any]) -> None:  # noqa: ANN401  of JSON
    if isinstance(value, dict) and isinstance(value.get("$ref"), str):
        name = value["$ref"].rpartition("/")[2]
        if name not in needed:
            needed[name] = schemas[name]
            _note_needed(schemas[name], schemas, needed)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _note_needed(inner, schemas, needed)


def _pointing_to_defs(value: Any) -> Any:  # noqa: ANN401  of JSON
    return json.loads(json.dumps(value).replace("#/components/schemas/", "#/$defs/"))


def suite(folder: Path) -> Iterator[tuple[str, Schemas]]:
    """Yield the schemas of the specification's tests."""
    for path in sorted((folder / "tests" / DRAFT).glob("*.json")):
        for group in json.loads(path.read_text()):
            if isinstance(group["schema"], dict):
                yield f"{path.stem}/{group['description']}", group["schema"]


def choose(schemas: Mapping[str, Any], count: int) -> Schemas:
    """Return so many of these, by the rule above; also of any other collection."""
    sizes = {name: len(json.dumps(schema, separators=(",", ":"))) for name, schema in schemas.items()}
    by_size = sorted((name for name in schemas if sizes[name] <= LARGEST), key=lambda name: (sizes[name], name))
    chosen: list[str] = []
    for third in range(3):
        part = by_size[len(by_size) * third // 3 : len(by_size) * (third + 1) // 3]
        quota = count * (third + 1) // 3 - count * third // 3
        chosen += sorted(part, key=lambda name: hashlib.sha256(name.encode()).digest())[:quota]
    return {name: schemas[name] for name in sorted(chosen)}


@click.command()
@click.option("--functions", "functions_", type=Path, required=True)
@click.option("--files", "files_", type=Path, required=True)
@click.option("--rest", "rest_", type=Path, required=True)
@click.option("--suite", "suite_", type=Path, required=True)
def main(functions_: Path, files_: Path, rest_: Path, suite_: Path) -> None:
    """Write `data`."""
    sources: dict[str, tuple[Callable[[Path], Iterator[tuple[str, Schemas]]], Path]] = {
        "functions": (functions, functions_),
        "files": (files, files_),
        "rest": (rest, rest_),
        "suite": (suite, suite_),
    }
    for name, (read, folder) in sources.items():
        chosen = choose(dict(read(folder)), TAKEN[name])
        text = json.dumps(chosen, indent=1, ensure_ascii=False)
        (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        click.echo(f"{name}: {len(chosen)} schemas, {len(text)} characters")


if __name__ == "__main__":
    main()
