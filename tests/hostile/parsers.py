"""Each API's parser, without a server: whatever a body holds, it is understood or refused in the API's own words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from werkzeug.datastructures import Headers

from actors.core.generation import GenerationRequest
from actors.generating.grammars import compiler_of
from runtime.errors import RequestError
from runtime.grammar.compiler import GrammarCompiler
from runtime.loading.load import describe_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import ServedModel
from runtime.store.resolve import resolve_model
from tests.hostile.bodies import FITTINGS, WITH_BODY, HostileBody
from tests.hostile.values import Json, written
from web.apis.anthropic.parse import count_tokens, parse_messages
from web.apis.ollama.parse import parse_chat as parse_ollama_chat
from web.apis.ollama.parse import parse_generate
from web.apis.openai.chat import parse_chat
from web.apis.openai.completions import parse_completion
from web.apis.responses.conversion import count_input_tokens, prepare, read_body, read_prompt_body
from web.apis.responses.stored.archive import no_history
from web.apis.utilities.tokens import apply_template, detokenize, tokenize
from web.bodies.errors.problem import Problem
from web.bodies.json_encoding import dumps
from web.bodies.strict_model import StrictModel, parse_model
from web.serving.app import ERROR_SHAPES

MOST_GENERATIONS = 68
CONTEXT = 512
MESSAGE = 2000
"""Characters that an error may have: what a client sent is shown in it, but never all of it."""


def _response(raw: bytes, model: ServedModel, _: int) -> object:
    body = read_body(raw, model)
    return prepare(body, no_history(body), model)


def _input_tokens(raw: bytes, model: ServedModel, _: int) -> object:
    body = read_prompt_body(raw, model)
    return count_input_tokens(body, no_history(body), model)


PARSERS: dict[str, Callable[[bytes, ServedModel, int], object]] = {
    "/v1/chat/completions": parse_chat,
    "/v1/completions": parse_completion,
    "/v1/responses": _response,
    "/v1/responses/input_tokens": _input_tokens,
    "/v1/messages": parse_messages,
    "/v1/messages/count_tokens": count_tokens,
    "/api/chat": parse_ollama_chat,
    "/api/generate": parse_generate,
    "/tokenize": tokenize,
    "/detokenize": detokenize,
    "/apply-template": apply_template,
}
"""What an operation makes of a body, by its path; bodies of others are held against their schemas alone."""


@cache
def served_model() -> ServedModel:
    """Return the embedded model, without its weights."""
    model, _ = describe_model(LoadOptions(resolve_model(None), slots=1, context=CONTEXT), "cede-embedded")
    return model


@cache
def base_model() -> ServedModel:
    """Return the same without a chat template."""
    return replace(served_model(), chat=None)


@cache
def _compiler() -> GrammarCompiler:
    return compiler_of(served_model())


@dataclass(slots=True)
class Verdicts:
    """Verdicts on many bodies."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # by path, kind and outcome
    faults: list[str] = field(default_factory=list)

    def take(self, bodies: Iterable[HostileBody], model: ServedModel) -> None:
        """Give bodies to their parsers."""
        for body in bodies:
            outcome = "fault"
            try:
                outcome = parse(body.operation.path, body.raw, model)
            except Exception as error:
                self.faults.append(f"{type(error).__name__}: {error!s:.300} for {body}")
            self.counts[body.path, body.kind, outcome] += 1

    def __str__(self) -> str:
        """List how many bodies of each kind came to what, and then the faults."""
        totals: Counter[tuple[str, str]] = Counter()
        for (path, kind, outcome), count in self.counts.items():
            totals[path, outcome] += count
            totals[f"all {kind!r}", outcome] += count
        return "\n".join(
            [*(f"{count:7} {name}: {outcome}" for (name, outcome), count in sorted(totals.items())), *self.faults]
        )


def parse(path: str, raw: bytes, model: ServedModel) -> str:
    """Give a body to the parser of its path, and its grammar to the compiler; return how that ended.

    Raises:
        Exception: any but a refusal that can be told: those are faults.
    """
    try:
        parser = PARSERS.get(path)
        _compile(_validate(path, raw) if parser is None else parser(raw, model, MOST_GENERATIONS))
    except RequestError as error:
        return f"refused, {_told(Problem.of(error), path)}"
    return "understood"


def _validate(path: str, raw: bytes) -> object:
    schema = WITH_BODY[path].body
    assert schema is not None
    assert issubclass(schema, StrictModel), schema
    return parse_model(schema, raw)


def _told(problem: Problem, path: str) -> int:
    """Return the status with which a problem is told, after a look at how."""
    shape = ERROR_SHAPES.shape(path, Headers())
    assert json.loads(dumps(shape.body(problem, None)).encode())
    assert 0 < len(problem.message) <= MESSAGE, problem.message[:MESSAGE]
    status = shape.status(problem)
    assert 400 <= status < 500, problem
    return status


def _compile(parsed: object) -> None:
    request = getattr(parsed, "request", None)
    if isinstance(request, GenerationRequest) and request.grammar is not None:
        _compiler().compile(request.grammar).matcher()


# --- what hypothesis draws ----------------------------------------------------------------------------------------

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
)
ANY_JSON: SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=8), part, max_size=4),
    max_leaves=12,
)


def any_body(path: str) -> SearchStrategy[bytes]:
    """Return bodies: any JSON value, or the operation's example with any values in any of its fields."""
    names = FITTINGS[path].names()
    example: Json = dict(WITH_BODY[path].example or {})
    keys = st.sampled_from(names) | st.text(max_size=8)
    fields = st.dictionaries(keys, _leaning(names), max_size=5)
    return (ANY_JSON | fields | fields.map(lambda given: example | given)).map(written)


def _leaning(names: list[str]) -> SearchStrategy[Any]:
    """Return any values, among them objects that have fields of such names as bodies have."""
    keys = st.sampled_from([*names, "type", "role", "content", "name", "text", "function", "id"])
    inner = st.dictionaries(keys, ANY_JSON, max_size=4)
    return ANY_JSON | inner | st.lists(inner, max_size=3)
