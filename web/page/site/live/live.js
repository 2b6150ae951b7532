// The live view: what the server does now, and what each cancel cost.

import { h } from "../shared/dom.js";
import { receiptList } from "./receipts.js";

/** Show it; see app.js. */
export function mount(element, { api }) {
  const ended = new AbortController();
  const receipts = h("div");
  element.append(
    h(
      "section",
      { class: "panel", "aria-labelledby": "receipts-title" },
      h("h2", { id: "receipts-title" }, "Cancels, newest first"),
      receipts,
    ),
  );
  api.json("v1/receipts?limit=20", { signal: ended.signal }).then(
    ({ data }) => receipts.replaceChildren(receiptList(data)),
    (error) => {
      if (!ended.signal.aborted) receipts.replaceChildren(h("p", { class: "hint" }, error.message));
    },
  );
  return () => ended.abort();
}
