"""Bad edits of what is said across workers: where an output begins, and what is ended at which worker."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MARK, OUTPUT = "web/cluster/translation/output_mark.py", "actors/generating/output.py"
CONTROL = "web/cluster/control"
UNIT = "tests/unit/web/cluster"

MUTANTS = (
    Mutant(
        "a page of another origin may ask the front door",
        "web/cluster/door/passage.py",
        "        apply_browser_policy(app, policy)\n",
        "",
        (f"{UNIT}/door/test_passage.py",),
    ),
    Mutant(
        "a discovery that does not answer keeps a worker from ending",
        "web/serving/stopping.py",
        "    with trio.move_on_after(LEAVE_SECONDS) as patience:\n",
        "    with trio.CancelScope() as patience:\n",
        ("tests/unit/web/serving/test_stopping.py",),
    ),
    Mutant(
        "a worker that slept has KV of which no front door is told any more",
        "web/cluster/liveness.py",
        "        self._ids.update(*(self._named[path] for path in ours))\n",
        "",
        (f"{UNIT}/test_liveness.py",),
    ),
    Mutant(
        "a worker that has left discovery is written there again",
        "web/cluster/membership.py",
        "            if not self._is_in or self.stands_still:\n",
        "            if self.stands_still:\n",
        (f"{UNIT}/test_membership.py",),
    ),
    Mutant(
        "an output that goes on elsewhere is one token shorter than it was",
        MARK,
        "len(plain) - position\n",
        "len(plain) - position - 1\n",
        (f"{UNIT}/translation/test_output_mark.py",),
    ),
    Mutant(
        "an output is marked again where it goes on",
        "web/cluster/translation/chunks.py",
        "        self._has_begun = emitted > 0\n",
        "        self._has_begun = False\n",
        (f"{UNIT}/translation/test_chunks.py",),
    ),
    Mutant(
        "penalties forget what was made elsewhere",
        OUTPUT,
        "            generated=self._emitted + len(self),\n",
        "            generated=len(self),\n",
        ("tests/unit/actors/generating/test_output.py",),
    ),
    Mutant(
        "a cancel reaches all requests of one id",
        f"{CONTROL}/routes.py",
        "        if len(found) > 1:\n",
        "        if len(found) > 2:\n",
        (f"{UNIT}/control/test_routes.py",),
    ),
    Mutant(
        "a cancel is sent to all workers",
        f"{CONTROL}/routes.py",
        "workers.ask(Question.CANCEL, worker=worker, id=name)",
        "workers.ask(Question.CANCEL, id=name)",
        (f"{UNIT}/control/test_routes.py",),
    ),
    Mutant(
        "who does not answer has no such request",
        f"{CONTROL}/routes.py",
        "        if silent:\n",
        "        if silent and found:\n",
        (f"{UNIT}/control/test_routes.py",),
    ),
    Mutant(
        "the front door ends what a key has asked",
        f"{CONTROL}/desk.py",
        'self._lives(asked["id"]) and self._engine',
        "self._engine",
        (f"{UNIT}/control/test_desk.py",),
    ),
    Mutant(
        "of two successors at the same time both go, or none",
        f"{CONTROL}/succession.py",
        "max(stamp, self._newest.get(name, stamp))",
        "stamp",
        (f"{UNIT}/control/test_succession.py",),
    ),
    Mutant(
        "one that goes on elsewhere is taken for a new one",
        f"{CONTROL}/succession.py",
        "self._numbers.get((name, request_id), newest + 1)",
        "newest + 1",
        (f"{UNIT}/control/test_succession.py",),
    ),
    Mutant(
        "the feed of a reader that has gone is told on",
        "web/cluster/peers.py",
        "            context.stop_generating()\n",
        "            pass\n",
        (f"{UNIT}/test_peers.py",),
    ),
    Mutant(
        "an event of all workers' does not say whose it is",
        f"{CONTROL}/feed/untaken.py",
        '{"worker": worker, **value})',
        "value)",
        (f"{UNIT}/control/feed/test_untaken.py",),
    ),
)
