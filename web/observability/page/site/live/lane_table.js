// The lanes as a table, for whoever sees no canvas.

import { h, scroller } from "../shared/dom.js";
import { headline } from "./receipts.js";
import { DOING } from "./requests.js";

const PAUSE = 1000; // milliseconds between two tables: one that changes all the time cannot be read

/** Shows the lanes of a model, once somebody opens it. */
export class LaneTable {
  constructor(model, signal) {
    this.model = model;
    this.body = h("tbody");
    this.shownAt = -PAUSE;
    const columns = ["Lane", "Now", "Request", "Tokens", "Last cancel"].map((name) => h("th", { scope: "col" }, name));
    this.element = h(
      "details",
      { class: "lane-table", ontoggle: () => this.show() },
      h("summary", {}, "The lanes as a table"),
      scroller("Lanes", h("table", {}, h("thead", {}, h("tr", {}, columns)), this.body)),
    );
    model.addEventListener("frame", () => performance.now() - this.shownAt > PAUSE && this.show(), { signal });
  }

  show() {
    if (!this.element.open || !this.model.state) return;
    this.shownAt = performance.now();
    this.body.replaceChildren(...this.model.lanes.filter(isTold).map((lane) => this.row(lane)));
  }

  row(lane) {
    const { slots } = this.model.state;
    const name = lane.kind === "slot" ? `slot ${lane.place}` : `queue ${lane.place + 1}`;
    const slot = lane.kind === "slot" ? slots[lane.place] : null;
    const now = slot ? slot.state : "queued";
    const tokens = slot ? (slot.state === "idle" ? `${slot.resident_tokens} kept` : slot.tokens) : "";
    const receipt = lane.marks.last?.receipt;
    const cancel = receipt ? `${headline(receipt)}: ${receipt.kept_tokens} kept, ${receipt.wasted_tokens} wasted` : "";
    return h("tr", {}, h("th", { scope: "row" }, name), [DOING[now] ?? now, lane.stay?.id ?? "", tokens, cancel].map((text) => h("td", {}, `${text}`)));
  }
}

function isTold(lane) {
  return lane.kind === "slot" || lane.stay !== undefined;
}
