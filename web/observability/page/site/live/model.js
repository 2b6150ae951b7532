// What is known of the server: its latest state, and the last minutes.  Everything here is bounded by counts.

import { Bounded } from "../shared/bounded.js";
import { Lane } from "./lane.js";

export const QUEUE_LANES = 4; // who waits further back shows in the list of requests
const RECEIPTS = 100;
const SAMPLES = 1500;
const STEPS = 200;
const ENDED = 500;

/**
 * Takes the frames of the feed in.  Listeners of "frame" hear when one was; its `detail` has the receipts in it.
 *
 * facts     what does not change: model, context, queue, step_seconds
 * state     as the last frame had it; null before the first
 * at        the server's clock in the last frame
 * lanes     of the slots, then of the queue
 * receipts  of cancels, the oldest first
 * samples   of counts, one for each frame
 * steps     seconds of those with rows of whoever generates
 * running   the step that is with the device; null for none
 * ended     ids of requests of which a generation has ended
 * lost      events that this page was too slow for, in all
 */
export class LiveModel extends EventTarget {
  constructor() {
    super();
    this.facts = null;
    this.state = null;
    this.at = 0;
    this.slots = [];
    this.queue = Array.from({ length: QUEUE_LANES }, (_, place) => new Lane("queue", place));
    this.receipts = new Bounded(RECEIPTS);
    this.samples = new Bounded(SAMPLES);
    this.steps = new Bounded(STEPS);
    this.gaps = new Bounded(STEPS);
    this.ended = new Bounded(ENDED);
    this.running = null;
    this.lost = 0;
    this.leaders = new Map(); // of those who wait for another to read what both prompts share
  }

  get lanes() {
    return [...this.slots, ...this.queue];
  }

  /** The lanes that somebody was in; the first one, as long as there are none. */
  get drawn() {
    const used = this.lanes.filter(({ stays }) => stays.length);
    return used.length ? used : this.slots.slice(0, 1);
  }

  get oldest() {
    return Math.min(...this.lanes.map((lane) => lane.oldest));
  }

  /** Take a frame in; `kind` is the event's name. */
  apply(kind, frame) {
    if (frame.model !== undefined) this.begin(frame);
    if (frame.lost) this.interrupt(frame.events[0]?.at ?? frame.at, frame.lost);
    const fresh = [];
    for (const event of frame.events) {
      this.take(event);
      if (event.type === "receipt") fresh.push(event);
    }
    this.at = frame.at;
    this.state = frame.state;
    this.agree();
    this.sample(frame);
    this.dispatchEvent(new CustomEvent("frame", { detail: { kind, receipts: fresh } }));
  }

  /** Say again how things stand, to listeners that came after the last frame. */
  tellAgain() {
    if (this.state) this.dispatchEvent(new CustomEvent("frame", { detail: { kind: "snapshot", receipts: [] } }));
  }

  /** A stream begins: the first one, or one after a break, of this server or of another. */
  begin({ at, model, context, queue, step_seconds: stepSeconds, receipts, state }) {
    this.facts = { model, context, queue, stepSeconds };
    if (this.state) this.interrupt(at, 0);
    while (this.slots.length < state.slots.length) this.slots.push(new Lane("slot", this.slots.length));
    this.slots.length = state.slots.length;
    const known = new Set([...this.receipts].map(nameOf));
    for (const receipt of receipts.toReversed()) if (!known.has(nameOf(receipt))) this.receipts.push(receipt);
  }

  /** Between the last frame and `until` things have happened that nobody told. */
  interrupt(until, lost) {
    this.lost += lost;
    this.gaps.push({ from: this.at, to: until });
    this.running = null;
    for (const lane of this.lanes) lane.leave(this.at);
  }

  take(event) {
    TAKERS[event.type]?.(this, event);
  }

  /** The lane that a generation is in; undefined for none. */
  laneOf({ request_id: id, index }) {
    return this.lanes.find(({ stay }) => stay && stay.id === id && stay.index === index);
  }

  /** Let the lanes agree with the state, which counts: events may have been lost. */
  agree() {
    const { slots, requests } = this.state;
    for (const { id: place, state, request_id: id, resident_tokens: resident } of slots) {
      const lane = this.slots[place];
      if (state === "idle") {
        lane.leave(this.at);
        if (lane.stays.last) lane.stays.last.resident = resident;
      } else if (!lane.stay || lane.stay.id !== id) {
        const index = requests.find((request) => request.id === id)?.slots.indexOf(place) ?? null;
        lane.enter(this.at, id, index);
      }
    }
    const waiting = new Set(requests.filter(({ states }) => states.includes("queued")).map(({ id }) => id));
    for (const lane of this.queue) if (lane.stay && !waiting.has(lane.stay.id)) lane.leave(this.at);
    const live = new Set(requests.map(({ id }) => id));
    for (const id of this.leaders.keys()) if (!live.has(id)) this.leaders.delete(id);
  }

  sample({ at, output_tokens: output, state: { statistics } }) {
    const { drafted_tokens: drafted, accepted_tokens: accepted } = statistics.speculation;
    const { prefill_tokens: prefill, steps } = statistics.manager;
    this.samples.push({ at, output, drafted, accepted, prefill, steps });
  }

  /** The receipt of a request's first cancelled generation; undefined while there is none. */
  receiptOf(id) {
    return [...this.receipts].findLast((receipt) => receipt.request_id === id);
  }
}

const TAKERS = {
  queued(model, event) {
    const lane = model.queue.find(({ stay }) => !stay);
    lane?.enter(event.at, event.request_id, event.index);
  },

  granted(model, event) {
    model.laneOf(event)?.leave(event.at);
    const lane = model.slots[event.slot];
    lane.enter(event.at, event.request_id, event.index);
    if (event.cached_tokens) lane.work(tick("restored", event, event.cached_tokens));
    if (event.leaders.length) model.leaders.set(event.request_id, event.leaders);
  },

  restored(model, event) {
    model.slots[event.slot].work(tick("restored", event, event.tokens));
  },

  step_begins(model, event) {
    model.running = event;
    for (const { request_id: id } of event.parts) model.leaders.delete(id);
  },

  step_ended(model, event) {
    const step = model.running;
    model.running = null;
    if (step?.step !== event.step || step.drafting !== event.drafting) return;
    const { at: from, parts } = step;
    for (const { request_id: id, slot, phase, rows, drafts } of parts) {
      model.slots[slot].work({ id, phase, from, to: event.at, rows, drafts });
    }
    if (!event.drafting && parts.some(({ phase }) => phase !== "prefill")) model.steps.push(event.at - from);
  },

  verified(model, event) {
    const span = model.laneOf(event)?.spans.last;
    if (span?.phase === "verify") span.accepted += event.accepted;
  },

  cancelled(model, event) {
    const { request_id: id, index, at } = event;
    model.laneOf(event)?.marks.push({ id, index, at, receipt: null });
  },

  receipt(model, receipt) {
    model.receipts.push(receipt);
    for (const { marks } of model.lanes) {
      for (const mark of marks) {
        if (!mark.receipt && mark.id === receipt.request_id && mark.index === receipt.index) mark.receipt = receipt;
      }
    }
    if (receipt.slot_freed_at !== null) model.laneOf(receipt)?.leave(receipt.slot_freed_at);
  },

  ended(model, event) {
    model.ended.push(event.request_id);
    model.laneOf(event)?.leave(event.at);
  },
};

function tick(phase, { at, request_id: id }, rows) {
  return { id, phase, from: at, to: at, rows, drafts: 0 };
}

/** What tells a receipt from all others of its server. */
export function nameOf({ request_id: id, index, detected_at: at }) {
  return `${id}/${index}/${at}`;
}
