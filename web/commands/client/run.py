"""`cede run`: one answer on the standard output."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from runtime.errors import CedeError
from web.commands.client.answer import Answer, answer_line, receipt_line
from web.commands.client.target import chosen_target, open_target, run_to_end, target_flags
from web.commands.options.flags import SectionedCommand
from web.commands.options.parameters import FILE
from web.process.failures import said_in_a_line

if TYPE_CHECKING:
    from pathlib import Path

    from web.commands.client.answer import Delta, Json
    from web.commands.client.connection import Connection
    from web.commands.client.target import Target

STDIN = "-"
OUT, ERR = 1, 2
BROKEN_PIPE = 128 + 13  # the status of a program that SIGPIPE ends


@click.command(cls=SectionedCommand, short_help="Answer one prompt; pipes welcome.")
@click.argument("prompt", nargs=-1)
@click.option("--system", metavar="TEXT", help="What the model is told before all else.")
@click.option("--max-tokens", type=click.IntRange(0), metavar="N", help="Of the answer, at most.")
@click.option("--temperature", "heat", type=float, metavar="NUMBER", help="0 takes the likeliest token.")
@click.option("--seed", type=int, metavar="N", help="The same answer again.")
@click.option("--json", "schema", type=FILE, metavar="SCHEMA", help="Answer in JSON of the schema in this file.")
@click.option("--no-stream", is_flag=True, help="Write the answer when it is whole.")
@click.option(
    "--reasoning",
    type=click.Choice(["show", "hide"]),
    help="What the model thinks before it answers goes to the standard error; shown if that is a terminal.",
)
@click.option("--verbose", "-v", is_flag=True, help="Say tokens and speed even if nobody sees the standard error.")
@target_flags
@click.pass_context
@said_in_a_line()
def run(ctx: click.Context, /, **given: Any) -> None:  # noqa: ANN401  # click's
    """Answer PROMPT, and exit.

    What comes in by a pipe is put after the prompt; with - for a prompt, or with none, it is the prompt:

    \b
        cede run "Why is the sky blue?"
        git diff | cede run "Write a commit message:"
        cede run - < prompt.txt

    A server that runs is asked (--url), or, with --model, a model is served in this process.  Ctrl-C hangs up.
    """  # noqa: D301  # click's mark is the character itself
    terminal = sys.stderr.isatty()
    shown = given["reasoning"] == "show" or (given["reasoning"] is None and terminal)
    question = Question(
        body=body_of(_prompt(given["prompt"]), given),
        out_is_terminal=sys.stdout.isatty(),
        shows_reasoning=shown,
        says_figures=terminal or given["verbose"],
    )
    target = chosen_target(ctx)
    run_to_end(partial(ask, target, question), local=target.local is not None)


@dataclass(frozen=True, slots=True)
class Question:
    """Question to ask, and how to show the answer.

    Attributes:
        body: of the chat completion.
        out_is_terminal: whether the standard output is one: then nothing that steers it is written.
        shows_reasoning: on the standard error.
        says_figures: on the standard error.
    """

    body: Json
    out_is_terminal: bool
    shows_reasoning: bool
    says_figures: bool


def body_of(prompt: str, given: dict[str, Any]) -> Json:
    """The body of a request, from the command's options.

    Raises:
        UsageError: the file of the schema cannot be read, or is not JSON.
    """
    system = [] if given["system"] is None else [{"role": "system", "content": given["system"]}]
    body: Json = {"messages": [*system, {"role": "user", "content": prompt}]}
    if not given["no_stream"]:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    fields = {"max_tokens": given["max_tokens"], "temperature": given["heat"], "seed": given["seed"]}
    body |= {name: value for name, value in fields.items() if value is not None}
    if (schema := given["schema"]) is not None:
        form = {"name": "answer", "schema": _schema(schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body


def _schema(path: Path) -> Any:  # noqa: ANN401
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"--json: {path}: {error.strerror}") from None
    except ValueError as error:
        raise click.UsageError(f"--json: {path}: is no JSON: {error}") from None


def _prompt(words: tuple[str, ...]) -> str:
    """The prompt, from the command line and what comes in by a pipe.  Raises UsageError."""
    said = " ".join(words)
    piped = ""
    if said in ("", STDIN) or not sys.stdin.isatty():
        if said == "" and sys.stdin.isatty():
            raise click.UsageError('say a prompt, as in cede run "Why is the sky blue?", or - to type it')
        try:
            piped = sys.stdin.buffer.read().decode("utf-8")
        except ValueError:
            raise click.UsageError("what came in by the pipe is not text in UTF-8") from None
    prompt = piped if said in ("", STDIN) else "\n\n".join(part for part in (said, piped) if part)
    if not prompt.strip():
        raise click.UsageError("the prompt is empty")
    return prompt


async def ask(target: Target, question: Question) -> int:
    """Ask, and write the answer; returns the exit status."""
    from web.commands.client.interruption import interrupted_by
    from web.commands.client.terminal import say_aside

    async with open_target(target) as connection:
        answer = Answer()
        writer = Writer(question)
        async with interrupted_by(signal.SIGINT, signal.SIGTERM) as interruption:
            try:
                await connection.chat(question.body, answer, writer.show)
                await writer.finish()
            except BrokenPipeError:
                return BROKEN_PIPE
        if interruption.number is not None:
            await writer.finish()
            await _say_receipt(connection, answer, question)
            return 128 + interruption.number
    if question.says_figures:
        say_aside(answer_line(answer))
    return 0


async def _say_receipt(connection: Connection, answer: Answer, question: Question) -> None:
    from web.commands.client.interruption import interrupted_by
    from web.commands.client.terminal import say_aside

    if not question.says_figures:
        return
    if not answer.id:
        say_aside("hung up before the server had answered")
        return
    async with interrupted_by(signal.SIGINT, signal.SIGTERM):
        try:
            receipt = await connection.receipt(answer.id)
        except CedeError as error:
            say_aside(f"hung up; the receipt is not to be had: {error}")
        else:
            say_aside("hung up" if receipt is None else receipt_line(receipt))


class Writer:
    """Writes an answer as it comes.

    Args:
        question: says how.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._thinks = False  # the standard error is in the middle of what the model thinks
        self._last = "\n"

    async def show(self, delta: Delta) -> None:
        """Write a piece.  Raises BrokenPipeError."""
        from web.commands.client.terminal import DIM, PLAIN, harmless, is_terminal, write

        if delta.reasoning and self._question.shows_reasoning:
            thought = harmless(delta.reasoning)
            await write(ERR, f"{DIM}{thought}{PLAIN}" if is_terminal(ERR) else thought)
            self._thinks = True
        if delta.text:
            await self._end_thought()
            text = harmless(delta.text) if self._question.out_is_terminal else delta.text
            self._last = text[-1:] or self._last
            await write(OUT, text)

    async def finish(self) -> None:
        """End the last line on a terminal; into a pipe goes exactly what the model said.

        What is said aside then begins a line of its own, for the pipe may end on the same terminal.
        """
        from web.commands.client.terminal import is_terminal, write

        await self._end_thought()
        if self._last != "\n" and (self._question.out_is_terminal or is_terminal(ERR)):
            await write(OUT if self._question.out_is_terminal else ERR, "\n")

    async def _end_thought(self) -> None:
        from web.commands.client.terminal import write

        if self._thinks:
            self._thinks = False
            await write(ERR, "\n\n")
