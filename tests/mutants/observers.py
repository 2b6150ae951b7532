"""Bad edits of what observers are told, of what one that raises costs, and of a server's own: its instruments."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FEED, FRAMES = "web/observability/inspection/feed/feed.py", "web/observability/inspection/feed/frames.py"
TRACER, TRACE = "web/observability/tracing/tracer.py", "web/observability/tracing/request_trace.py"
RECORDER, METRICS = "web/observability/recording/recorder.py", "web/observability/metrics/recorder.py"
SALVAGED = "actors/kv/salvaged_tokens.py"

MUTANTS = (
    Mutant(
        "a release is told before the slot is free",
        "actors/manager/dispatch.py",
        "        self._table.release(slot, held_until)\n",
        "        self._observers.tell(self._observers.released, Released(*record.key, slot.id, reason, 0, 0))\n"
        "        self._table.release(slot, held_until)\n",
    ),
    Mutant(
        "a cancel is not told",
        "actors/core/hold.py",
        "            if (observers := self.manager.observers).cancelled:\n",
        "            if (observers := self.manager.observers).cancelled and self.index:\n",
    ),
    Mutant(
        "accepted drafts are not among the rows that are told",
        "actors/manager/settlement.py",
        "        self._tell_committed(planned, len(rows), accepted)\n",
        "        self._tell_committed(planned, len(rows) - accepted, accepted)\n",
    ),
    Mutant(
        "a grant is told with another slot",
        "actors/manager/admission.py",
        "Granted(*ticket.key, slot.id, len(slot.tokens), record.leaders)",
        "Granted(*ticket.key, max(0, slot.id - 1), len(slot.tokens), record.leaders)",
    ),
    Mutant(
        "an observer that raises fails the request",
        "actors/core/observer.py",
        "            except Exception:\n                observer",
        "            except ArithmeticError as error:\n                raise error\n"
        "            except Exception:\n                observer",
        ("tests/unit/actors/core/test_observer.py",),
    ),
    Mutant(
        "an observer that raises goes on being told",
        "actors/core/observer.py",
        "                self._remove(observer)\n\n    def _remove",
        "\n    def _remove",
        ("tests/unit/actors/core/test_observer.py",),
    ),
    # --- a server's own observers, and its log
    Mutant(
        "the feed does not tell the end of one who failed",
        FEED,
        "        last = event.last\n",
        "        last = event.last\n        if isinstance(last, Failed):\n            return\n",
    ),
    Mutant(
        "the feed tells something of a generation after its end",
        FEED,
        "        self._owners.pop(event.key, None)\n",
        "        self._owners.pop(event.key, None)\n"
        '        self._tell_of("stage", event, self.now(), stage="leaving")\n',
    ),
    Mutant(
        "the feed tells a cancel when it is heard, not when it was",
        FEED,
        'self._tell_of("cancelled", event, self.engine.manager.wall.at(event.at))',
        'self._tell_of("cancelled", event, self.now() + 0.001)',
    ),
    Mutant(
        "a viewer is not told of events that it was too slow for",
        FRAMES,
        "        records, lost = self._viewer.take(MOST_EVENTS)\n",
        "        records, lost = self._viewer.take(MOST_EVENTS)[0], 0\n",
    ),
    Mutant(
        "a frame with a loss looks like any other",
        FRAMES,
        "Frame(LAGGED if lost else kind, frame)",
        "Frame(kind, frame)",
    ),
    Mutant(
        "a field of an answer is said to be absent where it has its default",
        "web/openapi/schemas.py",
        'field["type"] == "dataclass-field" or ',
        "",
        ("tests/unit/web/openapi/test_schemas.py",),
    ),
    Mutant(
        "a step that fails has no end in the feed",
        FEED,
        "        self._tell_end(event, 1, failed=True)\n",
        "",
    ),
    Mutant(
        "the span of a phase is left open by a cancel",
        TRACE,
        "        phase.span.end(self._clock(0))\n        phase.span = None\n",
        "        if not getattr(last, 'cancelled', None):\n            phase.span.end(self._clock(0))\n"
        "        phase.span = None\n",
    ),
    Mutant(
        "a request that was refused has no end in the traces",
        TRACER,
        "            trace.refuse(event.error)\n",
        "            trace.refuse(event.error)\n            del self._live[event.request_id]\n",
    ),
    Mutant(
        "a span says phase where it means reason",
        "web/observability/tracing/request_trace.py",
        '"cede.cancel.reason": receipt.reason.value',
        '"cede.cancel.reason": receipt.phase',
    ),
    Mutant(
        "a cancel is on the request's span alone",
        TRACE,
        "for span in (self._span, phase.span if phase is not None else None):",
        "for span in (self._span, None):",
    ),
    Mutant(
        "a hold is not drawn if its generation was cancelled",
        RECORDER,
        "            self._end_hold(event.key, cancelled=reason, **figures)\n",
        "            if reason is None:\n                self._end_hold(event.key, cancelled=reason, **figures)\n",
    ),
    Mutant(
        "a cancel is drawn when its receipt is written, not when it was",
        RECORDER,
        "detected, **asdict(event)",
        "self._now(), **asdict(event)",
    ),
    Mutant(
        "a step that raised is never drawn",
        RECORDER,
        "        self._fail_step(type(event.error).__name__)\n",
        "        self._step = None\n",
    ),
    Mutant(
        "who is cancelled in the queue waits for ever in the recording",
        RECORDER,
        "        if event.slot is None:\n            self._end_wait(event.key, cancelled=reason)\n        else:\n",
        "        if event.slot is not None:\n",
    ),
    Mutant(
        "tokens that were kept are counted as often as they were computed",
        METRICS,
        "        self._to.kept.inc(event.kept_tokens)\n",
        "        self._to.kept.inc(event.computed_tokens)\n",
    ),
    Mutant(
        "a cancel is counted again at its end",
        METRICS,
        "        last = event.last\n",
        '        last = event.last\n        if getattr(last, "cancelled", None):\n'
        '            self._to.cancels.labels(last.cancelled.value, "decode").inc()\n',
    ),
    Mutant(
        "a token is served again as often as somebody asks",
        SALVAGED,
        "                piece.unserved &= ~taken\n",
        "",
    ),
    Mutant(
        "what was computed again counts as served",
        "actors/manager/settlement.py",
        "        self._cache.salvaged.forget(slot.tokens, segment.start, segment.start + len(rows))\n",
        "",
    ),
    Mutant(
        "KV that comes from memory or disk is not counted as served again",
        "actors/kv/transfer_planner.py",
        "        self._cache.salvaged.take(record.slot.tokens, start, planned.end)\n",
        "",
    ),
    Mutant(
        "what a cancelled request had of others is counted as its own",
        "actors/manager/dispatch.py",
        "salvaged.leave(slot.tokens, record.ledger.computed_at)",
        "salvaged.leave(slot.tokens, [(0, len(slot.tokens))])",
    ),
    Mutant(
        "a line of the log can be begun by whom it quotes",
        "web/observability/logs/formats.py",
        "        else printable(_cut(text))\n",
        "        else _cut(text)\n",
        ("tests/unit/web/observability/logs/test_formats.py",),
    ),
    Mutant(
        "a value that JSON has not stops a line of the log",
        "web/observability/logs/formats.py",
        "        return value if math.isfinite(value) else str(value)\n",
        "        return value\n",
        ("tests/unit/web/observability/logs/test_formats.py",),
    ),
    Mutant(
        "prompts are in the log though nobody asked for that",
        "actors/generating/assembly.py",
        "if self._config.log_texts else None",
        "if not self._config.log_texts else None",
        ("tests/unit/actors/generating/test_request_log.py",),
    ),
    Mutant(
        "a collector that is down is a line for each batch",
        "web/observability/tracing/export.py",
        "            if not self._lost:\n",
        "            if self._lost >= 0:\n",
        ("tests/unit/web/observability/tracing/test_export_collector.py",),
    ),
)
