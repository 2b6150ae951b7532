// Receipts in plain words.

import { h } from "../shared/dom.js";

const MOST = 30;

const PHASES = {
  queued: "while it waited in the queue",
  prefill: "while its prompt was read",
  decode: "while it wrote",
  draft: "while tokens were drafted for it",
  verify: "while its drafts were verified",
};

const REASONS = {
  client_disconnect: "Hung up",
  operator: "Cancelled by hand",
  deadline: "Out of time",
  queue_timeout: "Waited too long",
  stalled_reader: "Nobody read its answer",
  shutdown: "The server stopped",
  fault: "Failed",
  group: "Ended with its group",
  sibling_won: "Another of its group was first",
  superseded: "A newer request took its place",
  prefill_finished: "Hung up, and its prompt was read to the end",
  abandoned: "Nobody came back to it",
  other_work: "Others had work while it was warmed",
};

/** What ended a request, and where: a sentence without its full stop. */
export function headline({ reason, phase }) {
  return `${REASONS[reason] ?? reason} ${PHASES[phase] ?? `in ${phase}`}`;
}

/** The milliseconds between two times of a receipt, as text. */
export function span(from, to) {
  const ms = Math.max(0, to - from) * 1e3;
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

/** What it cost, from the moment in which the server noticed. */
export function cost(receipt) {
  const { detected_at: detected, slot_freed_at: freed } = receipt;
  if (freed === null) return "It had no slot yet, so nothing had to stop.";
  const parked = receipt.parks ? ` It had been preempted ${receipt.parks === 1 ? "once" : `${receipt.parks} times`}.` : "";
  return `Its slot was free after ${span(detected, freed)}. ${work(receipt)}${parked}`;
}

/** When the last work for it ended, and what is left of its tokens. */
export function work(receipt) {
  const { detected_at: detected, last_kernel_at: kernel, layers_after_cancel: layers } = receipt;
  const { computed_tokens: computed, kept_tokens: kept, wasted_tokens: wasted } = receipt;
  const last =
    kernel === null || kernel <= detected
      ? "Nothing more ran for it."
      : `The last work for it ended after ${span(detected, kernel)}${["", ", with 1 layer"][layers] ?? `, with ${layers} layers`}.`;
  return `${last} Of ${computed} computed tokens ${kept} are kept for a retry, ${wasted} wasted.`;
}

/** What a screen reader is told of the receipts of one frame. */
export function announcement(receipts) {
  if (receipts.length > 2) return `${receipts.length} requests were cancelled.`;
  return receipts.map((receipt) => `${headline(receipt)}. ${cost(receipt)}`).join(" ");
}

/** Shows the newest receipts of a model. */
export class Receipts {
  constructor(model, signal) {
    this.model = model;
    this.shown = 0;
    this.list = h("ol", { class: "receipts" });
    this.empty = h("p", { class: "hint" }, "Nobody has hung up yet.");
    this.element = h("div", {}, this.empty, this.list);
    this.items = new Map();
    model.addEventListener("frame", () => this.show(), { signal });
  }

  show() {
    const newest = [...this.model.receipts].slice(-MOST).reverse();
    this.empty.hidden = newest.length > 0;
    if (newest[0] === this.newest) return;
    this.newest = newest[0];
    const items = newest.map((receipt) => this.items.get(receipt) ?? item(receipt));
    this.items = new Map(newest.map((receipt, place) => [receipt, items[place]]));
    this.list.replaceChildren(...items);
  }
}

function item(receipt) {
  const when = new Date(receipt.detected_at * 1e3);
  return h(
    "li",
    { class: receipt.phase },
    h("p", { class: "head" }, h("strong", {}, headline(receipt)), h("time", { datetime: when.toISOString() }, when.toLocaleTimeString("en-GB"))),
    h("p", {}, cost(receipt)),
    h("code", { title: receipt.request_id }, receipt.request_id),
    receipt.worker && h("p", { class: "whose" }, "at worker ", h("code", {}, receipt.worker)),
  );
}
