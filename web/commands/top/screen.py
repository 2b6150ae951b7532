"""Drawing what is known of a server: on a terminal, and as plain text for a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from runtime.common.units import counted, format_size
from web.commands.client.answer import receipt_line
from web.commands.client.terminal import harmless

if TYPE_CHECKING:
    from rich.console import RenderableType

    from web.commands.top.overview import Overview
    from web.commands.top.sample import Sample

KEYS = "up, down: choose   h: hang up   q: leave"
UNKNOWN = "-"
SHORT = 4  # digits of a worker's id, before the number of its slot


def draw(overview: Overview, url: str, *, keys: bool) -> RenderableType:
    """All that is shown.

    Args:
        overview: of the server.
        url: of it.
        keys: whether there are any: then a request is marked as chosen.
    """
    parts: list[RenderableType] = []
    if overview.problem is not None:
        parts.append(Text(harmless(f"{overview.problem}; asking again"), style="bold red"))
    if (sample := overview.newest) is not None:
        parts += _shown(overview, sample, url, keys)
    if keys:
        parts += [Text(harmless(overview.message)), Text(KEYS, style="dim")]
    return Group(*parts)


def _shown(overview: Overview, sample: Sample, url: str, keys: bool) -> list[RenderableType]:
    chosen = overview.chosen if keys else None
    model = sample.model
    title = f"{model['id']}, {model['max_model_len']} tokens of context, at {url}"
    parts: list[RenderableType] = [
        Text(harmless(title), style="bold"),
    ]
    for worker, engine in sample.engines.items():
        parts += [Text(f"worker {worker}")] if worker else []
        parts += map(Text, _figures(overview, sample, worker, engine))
    parts.append(Text(""))
    parts.append(_slots(overview, chosen, model["max_model_len"]))
    if overview.queue():
        parts += [Text(""), _queue(overview, chosen)]
    if sample.receipts:
        parts += [Text(""), Text("last receipts", style="dim")]
        parts += [Text(_receipt(each), no_wrap=True) for each in sample.receipts]
    return [*parts, Text("")]


def _receipt(receipt: dict[str, Any]) -> str:
    return f"{receipt['request_id']}  {receipt['reason']}: {receipt_line(receipt)}"


def _table(*columns: tuple[str, int]) -> Table:
    """A table of columns, each with its least width; below 0 it holds numbers, 0 is for ids, which may be cut."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name, width in columns:
        table.add_column(
            name,
            justify="right" if width < 0 else "left",
            no_wrap=width != 0,
            overflow="ellipsis",
            min_width=abs(width) or None,
        )
    return table


def _slots(overview: Overview, chosen: str | None, context: int) -> Table:
    table = _table(("", 1), ("SLOT", -4), ("STATE", 7), ("REQUEST", 0), ("TOKENS", -12), ("TOKENS/S", -8))
    for row in overview.slots():
        is_chosen = row.request is not None and row.request == chosen
        table.add_row(
            ">" if is_chosen else " ",
            f"{row.worker[:SHORT]}{':' if row.worker else ''}{row.number}",
            row.state,
            row.request or UNKNOWN,
            f"{row.tokens} of {context}",
            _number(row.speed, ".1f"),
            style="reverse" if is_chosen else "dim" if row.request is None else "",
        )
    return table


def _queue(overview: Overview, chosen: str | None) -> Table:
    table = _table(("", 1), ("QUEUED", 0), ("WAITS", -7), ("PROMPT", -6), ("WHY", 23))
    for row in overview.queue():
        is_chosen = row.request == chosen
        table.add_row(
            ">" if is_chosen else " ",
            row.request,
            f"{row.seconds:.1f} s",
            str(row.prompt_tokens),
            row.why,
            style="reverse" if is_chosen else "",
        )
    return table


def _figures(overview: Overview, sample: Sample, worker: str, engine: dict[str, Any]) -> list[str]:
    """The lines of figures of one engine: steps, drafts, and KV."""
    manager, drafts = engine["manager"], engine["speculation"]
    cache = manager["cache"]
    step, target = manager["last_step_seconds"], manager["step_target_seconds"]
    steps = [
        f"step {_number(step and 1000 * step, '.0f')} ms of {1000 * target:.0f} ms",
        f"{_number(overview.rate('steps', worker), '.0f')} steps/s",
        f"decode {_number(overview.rate('decode_tokens', worker), '.0f')} rows/s",
        f"prompts {_number(overview.rate('prefill_tokens', worker), '.0f')} rows/s",
        f"{manager['queued']} queued",
    ]
    if (rate := drafts["acceptance_rate"]) is not None:
        steps.append(f"{100 * rate:.0f} % of drafts accepted ({drafts['proposer']})")
    kv = [_pool(manager["pool"]), _tier("memory", cache["ram"])]
    if cache["disk"] is not None:
        kv.append(_tier("disk", cache["disk"]))
    cancels = {reason: count for reason, count in manager["cancels"].items() if count}
    ended = ", ".join(f"{count} {reason}" for reason, count in cancels.items()) or "none"
    lines = ["; ".join(steps), f"KV: {'; '.join(kv)}", f"cancels: {ended}"]
    return lines if (without := _detachable(engine.get("detachable"))) is None else [*lines, without]


def _pool(pool: dict[str, Any]) -> str:
    """Return how much of the KV that all sequences share they have; what several have is told once there is any."""
    size = f" ({format_size(pool['bytes'])})" if pool["bytes"] else ""
    shared = f", {pool['shared']} shared" if pool["shared"] else ""
    used = pool["held"] + pool["resident"]
    return f"{used} of {pool['positions']} tokens{size} in slots{shared}, {pool['free']} free"


def _detachable(runs: dict[str, Any] | None) -> str | None:
    """Requests that may outlive their clients; None where there are none."""
    if runs is None or not (runs["running"] or runs["kept"]):
        return None
    kept = f"{counted(runs['kept'], 'answer')} kept ({format_size(runs['kept_bytes'])})"
    return f"may outlive their clients: {runs['running']}, {runs['detached']} of them with nobody reading; {kept}"


def _tier(name: str, tier: dict[str, Any]) -> str:
    return f"{format_size(tier['bytes'])} of {format_size(tier['budget'])} in {name}"


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)
