"""A chat: from what is typed to what is done."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from runtime.common.units import counted
from runtime.errors import CedeError
from web.commands.chat.conversation import ASSISTANT, ChatError, Conversation
from web.commands.chat.prompt import Key
from web.commands.chat.slash import help_lines, parse
from web.commands.chat.view import AnswerView
from web.commands.client.answer import Answer, answer_line, receipt_line
from web.commands.client.interruption import interrupted_by
from web.commands.client.terminal import harmless, quiet_keys

if TYPE_CHECKING:
    from rich.console import Console

    from web.commands.chat.prompt import Prompt
    from web.commands.client.connection import Connection

STDIN = 0
LEAVES = "Ctrl-C once more, or Ctrl-D, leaves"


class Session:
    """One chat at a terminal.

    Args:
        connection: to the server.
        conversation: to go on with.
        prompt: reads what is typed.
        console: to write on.
        place: where the model is, for people.
    """

    def __init__(
        self, connection: Connection, conversation: Conversation, prompt: Prompt, console: Console, place: str
    ) -> None:
        self._connection = connection
        self._conversation = conversation
        self._prompt = prompt
        self._console = console
        self._place = place
        self._armed = False  # Ctrl-C was the last thing that was pressed
        self._typed = ""  # stands in the next line to begin with
        self._file: Path | None = None  # which this chat may write over
        self._total = Total()

    async def run(self) -> None:
        """Read and answer until the person leaves.  Raises CedeError if the server cannot be talked to at all."""
        self._aside(f"{self._place}: {await self._model()}")
        self._aside("/help shows the commands")
        while True:
            typed = await self._prompt.read(self._typed)
            self._typed = ""
            if typed is Key.END or (typed is Key.INTERRUPT and self._armed):
                return
            if typed is Key.INTERRUPT:
                self._armed = True
                self._aside(LEAVES)
                continue
            assert isinstance(typed, str)
            self._armed = False
            if typed.strip() and await self._do(typed.strip()):
                return

    async def _do(self, line: str) -> bool:
        """Do what a line says; return whether that is to leave."""
        try:
            if (command := parse(line)) is None:
                self._conversation.ask(line)
                await self._answer()
                return False
            return await self._command(command[0].name, command[1])
        except (ChatError, CedeError) as error:
            self._complain(str(error))
            return False

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _answer(self) -> None:
        """Let the model answer.  Ctrl-C hangs up, and what there is of the answer stays."""
        answer, failure = Answer(), None
        self._console.print()
        with quiet_keys(STDIN, signals=True), AnswerView(self._console) as view:
            async with interrupted_by(signal.SIGINT) as interruption:
                try:
                    await self._connection.chat(self._conversation.body(), answer, view.show)
                except CedeError as error:
                    failure = error
        self._conversation.answered(answer.text, answer.reasoning)
        if interruption:
            self._armed = True
            await self._say_receipt(answer)
        elif failure is not None:
            raise failure
        else:
            self._total.add(answer)
            self._aside(answer_line(answer))
        self._console.print()

    async def _say_receipt(self, answer: Answer) -> None:
        """Say what a hang-up cost."""
        receipt = None
        try:
            receipt = await self._connection.receipt(answer.id) if answer.id else None
        except CedeError as error:
            self._complain(str(error))
        self._aside(f"{'hung up' if receipt is None else receipt_line(receipt)}; /retry asks again; {LEAVES}")

    # --- commands -----------------------------------------------------------------------------------------------------

    async def _command(self, name: str, rest: str) -> bool:
        """Carry out a command; whether it is to leave.  Raises ChatError or CedeError."""
        match name:
            case "/quit":
                return True
            case "/help":
                self._help()
            case "/retry":
                self._conversation.retry()
                await self._answer()
            case "/undo":
                self._typed = self._conversation.undo()
            case "/model":
                self._aside(await self._model())
            case "/stats":
                self._aside(f"{counted(len(self._conversation.messages), 'message')} here; {self._total.line()}")
            case "/save" | "/load":
                self._save(rest) if name == "/save" else self._load(rest)
            case _:
                self._change(name, rest)
        return False

    def _change(self, name: str, rest: str) -> None:
        """Change what is said to the model, or how."""
        if name == "/new":
            self._conversation.clear()
            self._aside("a new conversation")
        elif name == "/system":
            self._conversation.system = rest or None
            self._aside("what the model is told before all else is set" if rest else "the model is told nothing before")
        elif rest:
            self._conversation.set(*rest.split(maxsplit=1)) if " " in rest else self._conversation.set(rest, "")
        if name == "/set":
            settings = self._conversation.settings
            self._aside(", ".join(f"{name} {value}" for name, value in settings.items()) or "nothing is set")

    async def _model(self) -> str:
        """Return what there is to say of the model that answers."""
        model = await self._connection.model()
        sampling = model.get("sampling_defaults") or {}
        said = [f"{name} {sampling[name]:g}" for name in ("temperature", "top_p", "top_k") if name in sampling]
        return "; ".join([f"{model['id']}, {model['max_model_len']} tokens of context", *said])

    def _save(self, name: str) -> None:
        path = self._path(name)
        if path.exists() and path != self._file:
            raise ChatError(f"{path} is there already, and is not of this chat")
        try:
            path.write_text(self._conversation.dumps(), encoding="utf-8")
        except OSError as error:
            raise ChatError(f"{path}: {error.strerror}") from None
        self._file = path
        self._aside(f"{counted(len(self._conversation.messages), 'message')} saved in {path}")

    def _load(self, name: str) -> None:
        path = self._path(name)
        try:
            self._conversation = Conversation.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ChatError(f"{path}: {error.strerror}") from None
        except (ValueError, ChatError) as error:
            raise ChatError(f"{path}: {error}") from None
        self._file = path
        for message in self._conversation.messages[-2:]:
            self._aside(f"{'' if message.role == ASSISTANT else '> '}{message.content}")
        self._aside(f"{counted(len(self._conversation.messages), 'message')} from {path}")

    def _path(self, name: str) -> Path:
        if name:
            return Path(name).expanduser()
        if self._file is None:
            raise ChatError("say which file")
        return self._file

    # --- what is said -------------------------------------------------------------------------------------------------

    def _help(self) -> None:
        table = Table.grid(padding=(0, 2))
        for left, right in help_lines():
            table.add_row(Text(left, style="bold"), Text(right))
        self._console.print(table)

    def _aside(self, text: str) -> None:
        self._console.print(Text(harmless(text), style="dim"))

    def _complain(self, text: str) -> None:
        self._console.print(Text(harmless(text), style="red"))


class Total:
    """Sums over the answers of a chat."""

    def __init__(self) -> None:
        self._answers = self._said = self._asked = self._cached = 0

    def add(self, answer: Answer) -> None:
        """Count an answer that came whole."""
        self._answers += 1
        self._said += answer.usage.get("completion_tokens", 0)
        self._asked += answer.usage.get("prompt_tokens", 0)
        self._cached += (answer.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)

    def line(self) -> str:
        """The sums, for people."""
        share = f" ({100 * self._cached / self._asked:.0f} %)" if self._asked else ""
        return (
            f"{counted(self._answers, 'whole answer')} of {counted(self._said, 'token')}; prompts of "
            f"{counted(self._asked, 'token')}, of which {self._cached} were cached{share}"
        )
