"""Bad edits of pages of KV: who is given which, who reads which, what is promised, and what is copied."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

POOL, PAGES, ROOM = "runtime/kv/pages.py", "actors/core/places/pages.py", "actors/kv/capacity.py"
UNIT = "tests/unit/runtime/kv/test_pages.py"
PLACES = "tests/unit/actors/core/places/test_pages.py"
CAPACITY = "tests/unit/actors/kv/test_capacity.py"
SHARING = "tests/scenarios/pages/test_sharing.py"
IN_POOL = "tests/scenarios/pages/test_pool.py"

MUTANTS = (
    Mutant(
        "pages are taken wherever one is free",
        POOL,
        "self._take_run(self._longest_run(count - len(taken)), count - len(taken))",
        "self._take_run(0, count - len(taken))",
        (UNIT,),
    ),
    Mutant(
        "a page is free when one of its readers has gone",
        POOL,
        "            if not self._readers[page]:\n                freed.append(page)\n",
        "            freed.append(page)\n",
        (UNIT,),
    ),
    Mutant(
        "a run of pages goes on over a page that lies elsewhere",
        POOL,
        " and self.pages[last + 1] == self.pages[last] + 1:\n",
        ":\n",
        (UNIT,),
    ),
    Mutant(
        "pages that are shared have no reader more",
        PAGES,
        "        self._pool.share(shared)\n",
        "",
        (PLACES,),
    ),
    Mutant(
        "a page is shared of which only a part is read",
        PAGES,
        "first, whole = pages_for(len(record.tokens)), end // PAGE_TOKENS\n",
        "first, whole = pages_for(len(record.tokens)), pages_for(end)\n",
        (PLACES,),
    ),
    Mutant(
        "the drafter is said to have read what lies behind the shared pages",
        PAGES,
        "            record.trim_draft(whole * PAGE_TOKENS)\n",
        "",
        (PLACES,),
    ),
    Mutant(
        "rows are written to a page that others have",
        PAGES,
        "        return first < record.shared and any(\n",
        "        return False and any(\n",
        (PLACES,),
    ),
    Mutant(
        "pages behind a slot's tokens that others have are not left",
        ROOM,
        "                self._pages.leave(record.slot)\n",
        "                pass\n",
        (CAPACITY,),
    ),
    Mutant(
        "a page is copied but for its last row",
        PAGES,
        "        return CopyPage(record.id, record.pages.pages[first], page, rows)\n",
        "        return CopyPage(record.id, record.pages.pages[first], page, rows - 1)\n",
        (PLACES,),
    ),
    Mutant(
        "a page that was copied has its old reader for ever",
        PAGES,
        "        self._pool.drop([copied.source])\n",
        "",
        (PLACES,),
    ),
    Mutant(
        "a page that could not be copied to is nobody's, and not free",
        PAGES,
        "        self._pool.drop([copied.target])\n",
        "",
        (PLACES,),
    ),
    Mutant(
        "what a slot gives back is lost",
        PAGES,
        "            self._pool.drop(record.pages.pages[kept:])\n",
        "",
        (PLACES,),
    ),
    Mutant(
        "pages that are being copied to are lost with the device",
        PAGES,
        "        self._pool.drop(self._targets)\n",
        "",
        (PLACES,),
    ),
    Mutant(
        "a page that could not be copied counts as copied",
        ROOM,
        "                self._pages.note_not_copied(slot, copied)\n"
        "                self._table.trim(slot, len(slot.tokens) - copied.rows)\n",
        "                self._pages.note_copied(slot, copied)\n",
        (CAPACITY,),
    ),
    Mutant(
        "rows are computed that do not follow what is left, where a page was not copied",
        "actors/manager/settlement.py",
        "            if not (record.has_leaders or is_cut):\n",
        "            if not record.has_leaders:\n",
        (SHARING,),
    ),
    Mutant(
        "a copied page has nothing of the drafter",
        "runtime/step/executor.py",
        "    if drafter is not None and isinstance(transfer, CopyPage):\n        drafter.transfer(transfer)\n",
        "",
        ("tests/unit/runtime/step/test_executor.py",),
    ),
    Mutant(
        "a sequence is read in the pages of the slot beside it",
        "actors/scheduling/step_planner.py",
        "            pages=record.slot.pages,\n",
        "            pages=self._table.slot((record.slot.id + 1) % len(self._table)).pages,\n",
        (SHARING,),
    ),
    Mutant(
        "blocks are copied out of the pages that a slot has when it has left theirs",
        "actors/kv/transfers.py",
        "        transfers: list[Transfer] = [_save(self._table.slot(slot), block) for slot, block in saves]\n"
        "        copies = self._capacity.copies(holds)\n"
        "        planned = [one for record in holds if (one := self._planner.plan(record)) is not None]\n",
        "        copies = self._capacity.copies(holds)\n"
        "        planned = [one for record in holds if (one := self._planner.plan(record)) is not None]\n"
        "        transfers: list[Transfer] = [_save(self._table.slot(slot), block) for slot, block in saves]\n",
        (SHARING,),
    ),
    Mutant(
        "room is free before what lies there is copied out",
        ROOM,
        "        self._pages.fit(slot, self._cache.waiting.end(slot.id))\n",
        "        self._pages.fit(slot, 0)\n",
        (IN_POOL,),
    ),
    Mutant(
        "nobody is told that what waited in wanted room is kept already",
        "actors/kv/transfers.py",
        "            return len(self._cache.waiting) < waiting  # whose room may be what somebody waits for\n",
        "            return False\n",
        (IN_POOL,),
    ),
    Mutant(
        "a reservation counts only as far as there is room for it already",
        PAGES,
        "max(read, (record.reserved - record.expected) // PAGE_TOKENS) - shared\n",
        "read - shared\n",
        (PLACES,),
    ),
    Mutant(
        "what was to be shared counts as promised before its rows are handed back",
        ROOM,
        "            reads = record.submitted is not None and not record.has_leaders\n",
        "            reads = record.submitted is not None and not record.is_led\n",
        (SHARING,),
    ),
    Mutant(
        "rows go into a step before their slot has room for them",
        "actors/scheduling/step_planner.py",
        "        return work if self._start(record, work) + len(work.token_ids) <= record.slot.capacity else None\n",
        "        return work\n",
        (IN_POOL,),
    ),
    Mutant(
        "the drafter's rows do not count as used",
        "actors/core/places/record.py",
        "        return max(len(self.tokens), self.staged, self.draft_length)\n",
        "        return max(len(self.tokens), self.staged)\n",
        (PLACES,),
    ),
    Mutant(
        "rows that are staged do not count as used",
        "actors/core/places/record.py",
        "        return max(len(self.tokens), self.staged, self.draft_length)\n",
        "        return max(len(self.tokens), self.draft_length)\n",
        (PLACES,),
    ),
)
