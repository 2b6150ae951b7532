"""Bad edits of KV outside the slots: what is restored, copied, saved, struck and dropped."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a cached block stays after it failed (seed 4)",
        "actors/kv/verdicts.py",
        "        dropped = self._drop(set(keys))\n",
        "        dropped = 0\n",
        ("tests/scenarios/kv/test_unusable_kv.py",),
    ),
    Mutant(
        "what was computed on a lie and displaced is kept after an audit has found it",
        "actors/kv/verdicts.py",
        "        self._waiting.forget_what_stands_on(wrong)\n",
        "",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "what was found wrong on its way out of a slot is kept",
        "actors/kv/mover.py",
        "            if slot is not None:  # else what it stands on was found wrong meanwhile\n",
        "            if True:\n",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "what was computed on a lie and kept outlives it",
        "actors/kv/verdicts.py",
        "self._drop(severed(self._tiers.parents(), self._roots, wrong))",
        "self._drop(set(wrong))",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "a restored block stands on no ancestor of its",
        "actors/kv/moves.py",
        "_places(record.hold.prompt.keys[: end // BLOCK_TOKENS], 0) | _places(keys, command.first),",
        "_places(keys, command.first),",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "who strikes waits for the disk",
        "runtime/kv/disk/write_queue.py",
        "            self._blocks.forget(struck)\n",
        "            self._blocks.forget(struck)\n            self._blocks.remove_forgotten()\n",
        ("tests/unit/runtime/kv/disk/test_tier_drops.py",),
    ),
    Mutant(
        "a block that is struck while its file gets its name is there",
        "runtime/kv/disk/index.py",
        "            if self._naming != key:\n",
        "            if False:\n",
        ("tests/unit/runtime/kv/disk/test_tier_drops.py",),
    ),
    Mutant(
        "a block that was struck while it was fetched comes back",
        "actors/kv/prefix_cache.py",
        "        if fetched.alarms != self.verdicts.alarms:\n",
        "        if False:\n",
        ("tests/scenarios/kv/test_unusable_kv.py", "tests/scenarios/kv/test_failing_sources.py"),
    ),
    Mutant(
        "who is cancelled waits for his read from disk",
        "actors/kv/disk_reader.py",
        "        await read.ended.wait()\n",
        "        with trio.CancelScope(shield=True):\n            await read.ended.wait()\n",
        ("tests/unit/actors/kv/test_disk_reader.py",),
    ),
    Mutant(
        "a read from disk that hangs is waited for",
        "actors/kv/disk_reader.py",
        "            with trio.move_on_after(MAX_READ_SECONDS) as patience:",
        "            with trio.CancelScope() as patience:",
        ("tests/unit/actors/kv/test_disk_reader.py",),
    ),
    Mutant(
        "a disk that hangs is asked by everybody",
        "actors/kv/disk_reader.py",
        "        return not self.busy_threads and trio.current_time() >= self._ask_again_at\n",
        "        return True\n",
        ("tests/unit/actors/kv/test_disk_reader.py",),
    ),
    Mutant(
        "the end waits for a writer that hangs",
        "runtime/kv/disk/writer.py",
        "        self._thread.join(MAX_LAST_WRITE_SECONDS)\n",
        "        self._thread.join()\n",
        ("tests/unit/runtime/kv/disk/test_tier.py",),
    ),
    Mutant(
        "a prefix is copied without asking whether it is still there (seed 5)",
        "actors/kv/moves.py",
        "        if not self._has_prefix(record, command):\n",
        "        if False:\n",
        ("tests/scenarios/kv/test_failing_sources.py",),
    ),
    Mutant(
        "what is copied leaves its trial behind",
        "actors/kv/moves.py",
        "                tuple(source.trial),\n",
        "                (),\n",
        ("tests/scenarios/kv/test_unusable_kv.py",),
    ),
    Mutant(
        "anybody may put blocks into the memory tier",
        "runtime/kv/ram_tier.py",
        "        self._owner.check()\n        before = self._blocks.get(block.key)",
        "        before = self._blocks.get(block.key)",
        ("tests/scenarios/kv/test_ownership.py",),
    ),
    Mutant(
        "anybody may say that nothing of a slot is to be kept",
        "actors/kv/waiting_blocks.py",
        "        self._owner.check()\n        self._batches.pop(slot, None)",
        "        self._batches.pop(slot, None)",
        ("tests/scenarios/kv/test_ownership.py",),
    ),
    Mutant(
        "anybody may take blocks out of the disk tier",
        "runtime/kv/disk/tier.py",
        "        self._owner.check()\n        self._queue.drop(keys)",
        "        self._queue.drop(keys)",
        ("tests/scenarios/kv/test_ownership.py",),
    ),
    Mutant(
        "an idle engine does not hear that the disk has room again",
        "actors/manager/slot_manager.py",
        "            self.cache.wake = partial(self._mailbox.post, DiskHasRoom())\n",
        "            self.cache.wake = lambda: None\n",
        ("tests/scenarios/kv/test_ownership.py",),
    ),
)
