"""The page's modules by themselves, in a browser that runs them: pure functions and bounded lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium
    from tests.live.server import Server


@pytest.fixture
def evaluate(chromium: Chromium, four_slots: Server) -> Any:  # noqa: ANN401
    """Runs the body of an async function, with what `load` imports of the page's modules, and returns its value."""

    def run(body: str) -> Any:  # noqa: ANN401
        def look(page: Page) -> Any:  # noqa: ANN401
            page.goto(f"{four_slots.url}/page/icon.svg")  # of the same origin, and with nothing that runs
            return page.evaluate(f"async () => {{ const load = (name) => import(`/page/${{name}}`); {body} }}")

        return chromium.visit(look)

    return run


FRAMES = """
const { LiveModel } = await load("live/model.js");
const slot = (id, state, request_id) => ({ id, state, request_id, tokens: 0, resident_tokens: 7, draft_tokens: 0 });
const statistics = { speculation: { drafted_tokens: 0, accepted_tokens: 0 }, manager: { prefill_tokens: 0, steps: 0 } };
const frame = (at, events, slots, requests = []) =>
  ({ at, lost: 0, output_tokens: 0, events, state: { health: null, requests, slots, statistics } });
const first = (at, slots) =>
  ({ ...frame(at, [], slots), model: "m", context: 9, queue: 4, step_seconds: 0.05, receipts: [] });
const part = { request_id: "a", index: 0, slot: 0, phase: "decode", start: 0, rows: 1, drafts: 0 };
const steps = (from, count, gap) => Array.from({ length: count }, (_, n) => [
  { type: "step_begins", at: from + n * gap, step: n, drafting: false, parts: [part] },
  { type: "step_ended", at: from + n * gap + gap / 2, step: n, drafting: false, failed: false },
]).flat();
const sizes = (model) =>
  model.lanes.map((lane) => [lane.stays, lane.spans, lane.pieces, lane.marks].map(({ length }) => length));
"""


def test_a_stream_is_read_however_it_is_cut(evaluate: Any) -> None:  # noqa: ANN401
    found = evaluate("""
      const { EventParser } = await load("shared/sse.js");
      const text = ": alive\\n\\nid: 7\\nevent: a\\ndata: 1\\ndata: 2\\n\\ndata:x\\r\\n\\r\\ndata: rest";
      return [1, 2, 7, 999].map((size) => {
        const parser = new EventParser();
        const read = [];
        for (let at = 0; at < text.length; at += size) read.push(...parser.push(text.slice(at, at + size)));
        return JSON.stringify(read);
      });
    """)
    assert set(found) == {'[{"event":"a","data":"1\\n2","id":"7"},{"event":"message","data":"x","id":null}]'}


def test_a_bounded_list_forgets_its_oldest(evaluate: Any) -> None:  # noqa: ANN401
    assert evaluate("""
      const { Bounded } = await load("shared/bounded.js");
      const list = new Bounded(3);
      for (const n of [1, 2, 3, 4, 5]) list.push(n);
      return [[...list], list.length, list.last, list.at(3) ?? null, list.search((n) => n > 3)];
    """) == [[3, 4, 5], 3, 5, None, 1]


def test_a_thousand_events_a_second_keep_the_memory_flat(evaluate: Any) -> None:  # noqa: ANN401
    """What is kept is counted, after a minute of them and after ten: no clock decides, and none is read."""
    sizes = evaluate(
        FRAMES
        + """
      const model = new LiveModel();
      model.apply("snapshot", first(0, [slot(0, "decode", "a")]));
      const kept = [];
      for (let minute = 0; minute < 40; minute += 1) {
        for (let second = 60 * minute; second < 60 * minute + 60; second += 1) {
          const cancels = Array.from({ length: 5 }, (_, n) => [
            { type: "queued", at: second, request_id: `${second}/${n}`, index: 0, prompt_tokens: 1 },
            { type: "cancelled", at: second, request_id: `${second}/${n}`, index: 0 },
            { type: "receipt", at: second, request_id: `${second}/${n}`, index: 0, slot_freed_at: null },
            { type: "ended", at: second, request_id: `${second}/${n}`, index: 0, reason: "cancelled" },
          ]).flat();
          model.apply("frame", frame(second, [...steps(second, 490, 1 / 490), ...cancels], [slot(0, "decode", "a")]));
        }
        kept.push([sizes(model), model.receipts.length, model.samples.length, model.steps.length, model.ended.length]);
      }
      return [kept[30], kept.at(-1)].map((each) => JSON.stringify(each));
    """
    )
    assert sizes[0] == sizes[1]


def test_short_steps_become_one_span_and_long_ones_stay(evaluate: Any) -> None:  # noqa: ANN401
    counts = evaluate(
        FRAMES
        + """
      return [0.002, 0.08].map((gap) => {
        const model = new LiveModel();
        model.apply("snapshot", first(0, [slot(0, "decode", "a")]));
        model.apply("frame", frame(9, steps(1, 50, gap), [slot(0, "decode", "a")]));
        const { spans } = model.slots[0];
        return [spans.length, [...spans].reduce((sum, { rows }) => sum + rows, 0)];
      });
    """
    )
    assert counts == [[1, 50], [50, 50]]


def test_what_is_too_old_for_spans_is_summed_up_for_each_second(evaluate: Any) -> None:  # noqa: ANN401
    """A minute of steps that alternate, so that no two become one span."""
    rows, longest, phases, oldest = evaluate(
        FRAMES
        + """
      const model = new LiveModel();
      model.apply("snapshot", first(0, [slot(0, "decode", "a")]));
      const turns = steps(1, 12000, 0.005).map((event) =>
        event.parts && event.step % 2 ? { ...event, parts: [{ ...part, phase: "verify", rows: 3 }] } : event);
      model.apply("frame", frame(61, turns, [slot(0, "decode", "a")]));
      const { pieces, spans } = model.slots[0];
      const rows = [pieces, spans].map((list) => [...list].reduce((sum, { rows }) => sum + rows, 0));
      const seconds = [...pieces].map(({ from, to }) => to - from);
      return [rows, Math.max(...seconds), Object.keys(pieces.at(0).seconds), pieces.at(0).from];
    """
    )
    assert rows == [2 * 9000, 2 * 3000]
    assert longest <= 1
    assert (phases, oldest) == (["decode", "verify"], 1)


def test_lanes_agree_with_the_state_where_events_were_lost(evaluate: Any) -> None:  # noqa: ANN401
    assert evaluate(
        FRAMES
        + """
      const model = new LiveModel();
      model.apply("snapshot", first(0, [slot(0, "decode", "a"), slot(1, "idle", null)]));
      const before = model.slots.map(({ stay }) => stay?.id ?? null);
      model.apply("lagged", { ...frame(5, [], [slot(0, "idle", null), slot(1, "prefill", "b")]), lost: 9 });
      const after = model.slots.map(({ stay }) => stay?.id ?? null);
      return [before, after, model.lost, model.slots[0].stays.last.to, model.slots[0].stays.last.resident];
    """
    ) == [["a", None], [None, "b"], 9, 0, 7]


def test_a_cancel_has_its_mark_and_then_its_receipt(evaluate: Any) -> None:  # noqa: ANN401
    assert evaluate(
        FRAMES
        + """
      const model = new LiveModel();
      model.apply("snapshot", first(0, [slot(0, "idle", null)]));
      const of = { request_id: "a", index: 0 };
      model.apply("frame", frame(1, [
        { type: "granted", at: 1, slot: 0, cached_tokens: 0, leaders: [], ...of },
        { type: "cancelled", at: 1.5, ...of },
      ], [slot(0, "prefill", "a")]));
      const bare = model.slots[0].marks.last.receipt;
      const receipt = { type: "receipt", at: 2, slot_freed_at: 1.75, detected_at: 1.5, ...of };
      model.apply("frame", frame(2, [receipt, { type: "ended", at: 2, ...of }], [slot(0, "idle", null)]));
      const { at, receipt: mine } = model.slots[0].marks.last;
      return [bare, at, mine.slot_freed_at, model.slots[0].stays.last.to, model.receiptOf("a").detected_at];
    """
    ) == [None, 1.5, 1.75, 1.75, 1.5]


def test_how_far_a_prompt_is_read_is_known_from_its_steps(evaluate: Any) -> None:  # noqa: ANN401
    found = evaluate("""
      const { phasesOf, progressOf, secondsUntil } = await load("live/reading.js");
      const span = (id, phase, from, to, rows) => ({ id, phase, from, to, rows });
      const spans = [span("a", "prefill", 10, 11, 100), span("b", "prefill", 11, 12, 900),
        span("a", "prefill", 12, 14, 300), span("a", "draft", 14, 15, 1)];
      const model = { slots: [{ spans: [] }, { spans }] };
      const progress = progressOf(model, "a");
      const left = [600, 400].map((tokens) => secondsUntil(progress, tokens, 15));
      const phases = [14, 14.5].map((since) => [...phasesOf(model, "a", since)]);
      return [progress, ...left, ...phases, progressOf(model, "c")];
    """)
    assert found == [{"tokens": 400, "to": 14, "rate": 100}, 1, -1, ["prefill", "draft"], ["draft"], None]


def test_a_fleet_keeps_workers_apart_and_their_past_over_a_break(evaluate: Any) -> None:  # noqa: ANN401
    found = evaluate(
        FRAMES
        + """
      const { Fleet } = await load("live/fleet.js");
      const fleet = new Fleet();
      const receipt = (detected_at) => ({ request_id: "a", index: 0, detected_at, slot_freed_at: null });
      const told = (at) => ({ type: "receipt", at, ...receipt(at) });
      const live = { id: "a", states: ["decode"], slots: [0] };
      const busy = (at, events = []) => frame(at, events, [slot(0, "decode", "a")], [live]);
      const start = (worker, receipts = []) =>
        fleet.apply("snapshot", { worker, ...first(1, [slot(0, "idle", null)]), receipts });
      const whose = () => fleet.receipts.map(({ worker, detected_at: at }) => `${worker}${at}`);
      const standings = () => [...fleet.workers].map(([worker, { standing }]) => `${worker} ${standing}`);
      fleet.begin();
      fleet.apply("worker", { worker: "A", standing: "joined" });
      start("A", [receipt(2)]);
      start("B", [receipt(1)]);
      fleet.apply("frame", { worker: "A", ...busy(3, [told(3)]) });
      fleet.apply("frame", { worker: "B", ...busy(4) });
      const [one, other] = ["A", "B"].map((worker) => fleet.workers.get(worker).model);
      const apart = [one, other].map((model) => [...model.receipts].length);
      fleet.apply("worker", { worker: "B", standing: "silent" });
      const silent = standings();
      fleet.begin();
      const nobody = standings();
      start("A", [receipt(3), receipt(2)]);
      fleet.apply("worker", { worker: "C", standing: "joined" });
      fleet.apply("worker", { worker: "C", standing: "left" });
      return [apart, silent, nobody, standings(), fleet.workers.get("A").model === one, whose()];
    """
    )
    assert found == [[2, 1], ["A joined", "B silent"], [], ["A joined"], True, ["B1", "A2", "A3"]]
