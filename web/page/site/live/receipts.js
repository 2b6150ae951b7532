// Receipts in plain words.

import { h } from "../shared/dom.js";

const PHASES = {
  queued: "while it waited in the queue",
  prefill: "while its prompt was read",
  decode: "while it wrote",
  draft: "while tokens were drafted for it",
  verify: "while its drafts were verified",
};

const REASONS = {
  client_disconnect: "Hung up",
  operator: "Cancelled by somebody else",
  deadline: "Out of time",
  queue_timeout: "Waited too long",
  stalled_reader: "Nobody read its answer",
  shutdown: "The server stopped",
  fault: "A fault",
};

/** What ended a request, and where: one sentence without its full stop. */
export function headline({ reason, phase }) {
  return `${REASONS[reason] ?? reason} ${PHASES[phase] ?? `in ${phase}`}`;
}

/** Milliseconds between two times of a receipt, as text. */
export function span(from, to) {
  const ms = Math.max(0, to - from) * 1e3;
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

/** What it cost, in one sentence. */
export function cost(receipt) {
  if (receipt.slot_freed_at === null) return "It had no slot, so nothing had to stop.";
  const kernel = span(receipt.detected_at, receipt.last_kernel_at ?? receipt.detected_at);
  const freed = span(receipt.detected_at, receipt.slot_freed_at);
  return (
    `Last work for it on the device ${kernel} after that was noticed, its slot free after ${freed}; ` +
    `${receipt.kept_tokens} tokens kept for a retry, ${receipt.wasted_tokens} wasted.`
  );
}

/** A list of receipts, or a sentence where there is none. */
export function receiptList(receipts) {
  if (!receipts.length) return h("p", { class: "hint" }, "Nobody has hung up yet.");
  return h(
    "ul",
    { class: "receipts" },
    receipts.map((receipt) =>
      h("li", {}, h("strong", {}, headline(receipt)), " ", h("code", { class: "figure" }, receipt.request_id), h("p", {}, cost(receipt))),
    ),
  );
}
