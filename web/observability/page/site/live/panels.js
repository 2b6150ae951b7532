// What is shown of one server, but for "Show me": figures, lanes, requests, cancels, KV.

import { counted } from "../shared/counted.js";
import { h, scroller, setText } from "../shared/dom.js";
import { Detached } from "./detached.js";
import { Instruments } from "./instruments.js";
import { LaneTable } from "./lane_table.js";
import { Memory } from "./memory.js";
import { Receipts } from "./receipts.js";
import { Requests } from "./requests.js";
import { Timeline } from "./timeline.js";

/**
 * Shows a model until the signal ends it.
 *
 * `hangUp(id)` ends a request, or drops its answer; `status` is an element that says how the connection is.
 */
export class Panels {
  constructor(model, { hangUp, theme, status, signal }) {
    this.timeline = new Timeline(model, theme, signal);
    const lost = h("p", { class: "status lost", hidden: true });
    const instruments = new Instruments(model, signal);
    const table = new LaneTable(model, signal);
    const requests = new Requests(model, hangUp, signal);
    const outliving = new Detached(model, hangUp, signal);
    const detached = panel("May outlive their clients", scroller("May outlive their clients", outliving.element));
    this.elements = [
      instruments.element,
      panel("Slots and queue", [
        h("p", { class: "hint" }, "Whoever has a slot is answered; the others wait in the queue. Time goes from left to right."),
        h("div", { class: "statuses" }, status, lost),
        this.timeline.element,
        table.element,
      ]),
      h(
        "div",
        { class: "columns" },
        panel("Requests", scroller("Requests", requests.element)),
        panel("Cancels", scroller("Cancels", new Receipts(model, signal).element)),
        panel("KV", scroller("KV", new Memory(model, signal).element)),
        detached,
      ),
    ];
    const show = () => {
      detached.hidden = !model.state.detachable.length;
      lost.hidden = !model.lost;
      setText(lost, `This page was too slow for ${counted(model.lost, "event")}; the figures are right, the picture has gaps.`);
    };
    model.addEventListener("frame", show, { signal });
  }
}

/** A part of the view under a title of its own. */
export function panel(title, children) {
  const id = `panel-${title.toLowerCase().replaceAll(" ", "-")}`;
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), children);
}

/** The line that says how the connection is, and what changes it, as `follow` tells (feed.js). */
export function connection() {
  const element = h("p", { class: "status", role: "status" }, "connecting …");
  const tell = (name, message) => {
    element.className = `status ${name}`;
    setText(element, STATUS[name](message));
  };
  return { element, tell };
}

const STATUS = {
  live: () => "connected",
  locked: () => "This server wants an API key: load the page again to give one.",
  over: () => "The server has stopped. This page looks for it again and again.",
  away: (message) => `No connection to the server${message ? `: ${message}` : ""}. This page tries again and again.`,
};
