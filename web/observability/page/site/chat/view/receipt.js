// What is shown of an answer that was cancelled.

/** @import { Turn } from "../state/turn.js" */

import { h } from "../../shared/dom.js";
import { cost, headline } from "../../live/receipts.js";
import { receiptRows } from "../state/receipt.js";

/** @param {Turn} turn @returns {HTMLElement} */
export function receiptView(turn) {
  const [receipt] = turn.receipts; // a chat of this page asks for one choice, so there is one at most
  if (!receipt) return h("p", { class: "receipt" }, h("strong", {}, "Stopped."), ` ${withoutReceipt(turn)}`);
  return h(
    "details",
    { class: "receipt" },
    h("summary", {}, h("strong", {}, "Cancelled."), ` ${headline(receipt)}. ${cost(receipt)}`),
    h("dl", {}, receiptRows(receipt).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "figure" }, value)))),
  );
}

function withoutReceipt(turn) {
  if (turn.requestId === null) return "The server had not answered yet, so it is not known which receipt is this one's.";
  return "The server has no receipt of it.";
}
