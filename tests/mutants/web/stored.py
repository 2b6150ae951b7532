"""Bad edits of what is stored: what reading costs, what a full disk and a wrong clock may take, and what time it is."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ROWS, PARTS, DATABASE = "web/storage/rows.py", "web/storage/parts.py", "web/storage/database.py"
UNIT = "tests/unit/web/storage"

MUTANTS = (
    Mutant(
        "a use of a stored object is written at once",
        ROWS,
        "            chain.append((number, bool(live)))\n",
        "            chain.append((number, bool(live)))\n"
        '            self._connection.execute("UPDATE objects SET used = ? WHERE number = ?", (now, number))\n',
        (f"{UNIT}/test_database_full_disk.py::test_what_is_stored_is_read_from_a_disk_that_takes_nothing",),
    ),
    Mutant(
        "nothing is kept free on the disk for deleting",
        DATABASE,
        "        with reserve_given_up(self._folder):\n",
        "        if True:\n",
        (f"{UNIT}/test_database_full_disk.py::test_what_is_deleted_on_a_full_disk_takes_the_reserve_for_as_long",),
    ),
    Mutant(
        "a page of items is read to the list's end",
        PARTS,
        "        if len(items) == asked.limit or size >= most_bytes:\n",
        "        item = connection.execute('SELECT group_concat(body) FROM parts').fetchone()\n"
        "        if len(items) == asked.limit or size >= most_bytes:\n",
        (f"{UNIT}/test_objects_items.py::test_one_item_of_many_is_all_that_is_read_and_written",),
    ),
    Mutant(
        "a page begins with the item behind which it was to begin",
        PARTS,
        'order, beyond = ("ASC", ">")',
        'order, beyond = ("ASC", ">=")',
        (f"{UNIT}/test_objects_items.py::test_a_page_is_that_of_a_plain_list",),
    ),
    Mutant(
        "stored objects grow old by whatever the machine's clock shows",
        "web/storage/clock.py",
        "min(max(0.0, unseen), self._most_unseen)",
        "max(0.0, unseen)",
        (f"{UNIT}/test_clock.py::test_storing_while_the_clock_is_wrong_deletes_nothing",),
    ),
    Mutant(
        "a receipt tells the time by how far the clocks were apart at the start",
        "actors/core/receipts.py",
        "        self.now = wall\n",
        "        ahead = wall() - clock()\n        self.now = lambda: clock() + ahead\n",
        ("tests/unit/actors/core/test_receipts_set_clock.py",),
    ),
    Mutant(
        "what fails in a nursery at a start is told as a traceback",
        "web/process/failures.py",
        "    except* CedeError as group:",
        "    except CedeError as group:",
        ("tests/unit/web/process/test_failures.py",),
    ),
)
