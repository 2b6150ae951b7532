"""Chat templates: messages in, the prompt's text out, as transformers' `apply_chat_template` renders it.

A template is a program that came with the model's folder, so it runs in jinja2's immutable sandbox: no attribute that
leads to the interpreter, no changing of its arguments, `range` of at most 100,000 numbers.  It can still be slow on
purpose (loops within loops); whoever chose the folder answers for that.  What clients write reaches it as values only,
never as source.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import jinja2
import jinja2.meta
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runtime.errors import CheckpointError, RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jinja2.parser import Parser

    from runtime.checkpoint.open import Checkpoint

# Errors of a template when the messages are not of the shape that it expects.
RENDER_ERRORS = (
    jinja2.TemplateError,  # its own raise_exception, an undefined value, a sandbox violation
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    """A compiled chat template.

    Args:
        source: the template's.
        token_names: the spelling of the special tokens that it may use (`bos_token`, ...).

    Attributes:
        source: the same.
        token_names: the same.
        variables: names that the template reads and does not set itself.

    Raises:
        CheckpointError: the template does not compile; the message has the line where jinja2 knows it.
    """

    def __init__(self, source: str, token_names: Mapping[str, str] | None = None) -> None:
        environment = _environment()
        self.source = source
        try:
            parsed = environment.parse(source)
            self.variables = frozenset(jinja2.meta.find_undeclared_variables(parsed))
            self._template = environment.from_string(parsed)
        except jinja2.TemplateSyntaxError as error:
            raise CheckpointError(f"the chat template is broken at line {error.lineno}: {error}") from error
        except (SyntaxError, ValueError, RecursionError) as error:  # from the Python code that jinja2 makes of it
            raise CheckpointError(f"the chat template cannot be compiled: {error}") from error
        self.token_names = dict(token_names or {})

    @classmethod
    def load(cls, checkpoint: Checkpoint, path: Path | None = None) -> ChatTemplate | None:
        """Load the template of a checkpoint, or of the file at `path` in its place.

        Returns:
            None where there is none, as for a base model.

        Raises:
            CheckpointError: the template is broken, or cannot be read.
        """
        try:
            source = checkpoint.chat_template() if path is None else path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: the chat template cannot be read: {error}") from error
        try:
            return None if source is None else cls(source, checkpoint.token_names())
        except CheckpointError as error:
            raise CheckpointError(f"{error}{'' if path else '; --chat-template FILE takes another'}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        add_generation_prompt: bool = True,
        **variables: Any,  # noqa: ANN401
    ) -> str:
        """Render the prompt's text, BOS and the like included: encode it with `add_special_tokens=False`.

        Args:
            messages: the chat; fields that are None are left out, for templates test with `is defined`, but for the
                content of a message with calls, for some test that with `is none`.
            add_generation_prompt: end with the beginning of an answer.
            variables: `tools`, `documents`, or whatever else the template knows.

        Raises:
            RequestError: the template refuses the messages, or cannot cope with their shape (param `messages`).
        """
        # The template's own arguments come last: `variables` may hold what a client sent.
        arguments = {
            "tools": None,
            "documents": None,
            **self.token_names,
            **variables,
            "messages": [_without_nones(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._template.render(arguments)
        except RENDER_ERRORS as error:
            reason = str(error) or type(error).__name__
            raise RequestError(
                f"The model's chat template does not accept these messages: {reason}", param="messages"
            ) from error


def _without_nones(message: Mapping[str, Any]) -> dict[str, Any]:
    kept = "content" if message.get("tool_calls") else ""
    return {name: value for name, value in message.items() if value is not None or name == kept}


# --- the environment that the templates of the Hub are written for ----------------------------------------


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    del environment.globals["lipsum"]  # text of any length from one call
    environment.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        "namespace": _Namespace,
    }
    return environment


class GenerationTag(Extension):
    """The tag `{% generation %}`, which marks the assistant's words for training; here its body is rendered."""

    tags = {"generation"}  # noqa: RUF012  (jinja2 declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse the body as a scope of its own, like a block's: what is set inside is not seen outside."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Namespace(jinja2.utils.Namespace):
    """The templates' `namespace()`, without underscored names, some of which mean something to the interpreter."""

    def __init__(*args: Any, **attributes: Any) -> None:  # noqa: ANN401
        self, *rest = args  # named so, it leaves `self` free for an attribute
        jinja2.utils.Namespace.__init__(self)
        for name, value in dict(*rest, **attributes).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:  # noqa: ANN401
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}")
        super().__setitem__(name, value)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as models were trained on it; jinja2's own filter escapes it for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
