"""Screen that is drawn."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from tests.unit.web.commands.top.samples import POOL, request, sample, slot
from web.commands.top.overview import Overview
from web.commands.top.screen import draw


def drawn(overview: Overview, *, keys: bool = True, width: int = 140) -> list[str]:
    console = Console(color_system=None, force_terminal=False, width=width, highlight=False)
    with console.capture() as captured:
        console.print(draw(overview, "http://x", keys=keys))
    return [line.rstrip() for line in captured.get().split("\n") if line.strip()]


def busy() -> Overview:
    overview = Overview()
    for at in (1.0, 2.0):
        slots = [slot(0, "decode", "a", 300), slot(1, "idle", None, 40)]
        requests = [request("a", "decode", tokens=int(at * 8)), request("b", "queued")]
        overview.take(sample(at, slots, requests, steps=int(at * 20)))
    return overview


def test_slots_queue_figures_and_receipts_are_shown() -> None:
    lines = drawn(busy())
    assert lines[0] == "a-model, 1000 tokens of context, at http://x"
    assert lines[1] == (
        "step 12 ms of 50 ms; 20 steps/s; decode 60 rows/s; prompts 0 rows/s; 0 queued; 76 % of drafts accepted (mtp)"
    )
    assert lines[2] == "KV: 700 of 1600 tokens (1 MiB) in slots, 900 free; 1 MiB of 1 GiB in memory"
    assert lines[3] == "cancels: 1 operator"
    assert [line.split() for line in lines[5:7]] == [
        [">", "0", "decode", "a", "300", "of", "1000", "8.0"],
        ["1", "idle", "-", "40", "of", "1000", "-"],
    ]
    assert lines[8].split()[:4] == ["b", "2.0", "s", "7"]
    assert any(line.startswith("gone  operator: hung up in decode; 9 tokens computed") for line in lines)


def test_plain_text_has_no_keys_and_nothing_chosen() -> None:
    lines = drawn(busy(), keys=False)
    assert not [line for line in lines if line.startswith((">", "up, down"))]


def test_on_a_narrow_screen_only_ids_are_cut() -> None:
    overview = Overview()
    name = "chatcmpl-" + "0" * 32
    slots = [slot(0, "prefill", name, 300), slot(1, "decode", "b", 4)]
    overview.take(sample(1.0, slots, [request(name, "prefill"), request("b", "decode"), request("c", "queued")]))
    lines = drawn(overview, width=66)
    (first,) = [line for line in lines if "prefill" in line]
    assert "300 of 1000" in first
    assert "chatcmpl-0000" in first
    assert [line for line in lines if "every slot is taken" in line]


def test_what_is_wrong_stands_above_what_was_known() -> None:
    overview = busy()
    overview.lose("no server answers at http://x")
    assert drawn(overview)[0] == "no server answers at http://x; asking again"
    assert drawn(overview)[1].startswith("a-model")
    alone = Overview()
    alone.lose("no server answers at http://x")
    assert drawn(alone)[0] == "no server answers at http://x; asking again"


def test_before_the_first_step_there_is_no_time_of_one() -> None:
    overview = Overview()
    overview.take(sample(1.0, [slot(0)], [], last_step_seconds=None))
    assert drawn(overview)[1].startswith("step - ms of 50 ms; - steps/s")


def test_the_pool_and_requests_without_a_reader_are_figures() -> None:
    overview = Overview()
    shared = sample(1.0, [slot(0)], [], pool=POOL | {"shared": 128, "bytes": 0})
    runs = {"running": 3, "detached": 2, "kept": 5, "kept_bytes": 2**20}
    overview.take(replace(shared, engines={"": shared.engines[""] | {"detachable": runs}}))
    lines = drawn(overview)
    assert lines[2].startswith("KV: 700 of 1600 tokens in slots, 128 shared, 900 free;")
    assert lines[4] == "may outlive their clients: 3, 2 of them with nobody reading; 5 answers kept (1 MiB)"
    overview.take(replace(shared, engines={"": shared.engines[""] | {"detachable": dict.fromkeys(runs, 0)}}))
    assert not [line for line in drawn(overview) if "outlive" in line]


def test_of_a_cluster_each_worker_has_its_figures_and_its_slots_say_whose_they_are() -> None:
    overview, names = Overview(), ("ab12" + "0" * 12, "cd34" + "0" * 12)
    for at in (1.0, 2.0):
        slots = [slot(0, "decode", "a", 300) | {"worker": names[0]}, slot(0, "idle", None, 40) | {"worker": names[1]}]
        requests = [request("b", "queued") | {"worker": names[0]}, request("c", "queued") | {"worker": names[1]}]
        one = sample(at, slots, requests)
        speeds = {
            name: sample(at, [], [], int(at) * steps, pool=POOL | {"held": held, "resident": 0}).engines[""]
            for name, steps, held in zip(names, (20, 7), (300, 40), strict=True)
        }
        overview.take(replace(one, engines=speeds))
    lines = drawn(overview)
    assert [lines[1], lines[5]] == [f"worker {name}" for name in names]
    assert [" 20 steps/s" in lines[2], " 7 steps/s" in lines[6]] == [True, True]
    assert [lines[3].split()[1], lines[7].split()[1]] == ["300", "40"]
    assert [line.split()[:-5] for line in lines if ":0 " in line] == [[">", "ab12:0", "decode"], ["cd34:0", "idle"]]
    assert [line for line in lines if "every slot is taken" in line and " b " in line]
    assert [line for line in lines if "with the next turn" in line and " c " in line]
