// The live view: what the server does now, and where each cancel lands.

import { h, scroller, setText } from "../shared/dom.js";
import { Detached } from "./detached.js";
import { follow } from "./feed.js";
import { Instruments } from "./instruments.js";
import { LaneTable } from "./lane_table.js";
import { Memory } from "./memory.js";
import { LiveModel } from "./model.js";
import { announcement, Receipts } from "./receipts.js";
import { Requests } from "./requests.js";
import { ShowMe } from "./show_me.js";
import { Timeline } from "./timeline.js";

const STATUS = {
  live: () => "connected",
  locked: () => "This server wants an API key: load the page again to give one.",
  over: () => "The server has stopped. This page looks for it again and again.",
  away: (message) => `No connection to the server${message ? `: ${message}` : ""}. This page tries again and again.`,
};

/** Show it; see app.js. */
export function mount(element, { api, announce, theme }) {
  const ended = new AbortController();
  const { signal } = ended;
  const model = new LiveModel();
  const status = h("p", { class: "status", role: "status" }, "connecting …");
  const lost = h("p", { class: "status lost", hidden: true });
  const hangUp = (id) => api.json(`v1/requests/${encodeURIComponent(id)}`, { method: "DELETE" }).catch((error) => announce(error.message));
  const timeline = new Timeline(model, theme, signal);
  const parts = {
    timeline,
    showMe: new ShowMe(api, model, timeline, signal),
    instruments: new Instruments(model, signal),
    table: new LaneTable(model, signal),
    requests: new Requests(model, hangUp, signal),
    detached: new Detached(model, hangUp, signal),
    receipts: new Receipts(model, signal),
    memory: new Memory(model, signal),
  };
  const detached = panel("May outlive their clients", scroller("May outlive their clients", parts.detached.element));
  element.append(
    parts.showMe.element,
    parts.instruments.element,
    panel("Slots and queue", [h("div", { class: "statuses" }, status, lost), parts.timeline.element, parts.table.element]),
    h(
      "div",
      { class: "columns" },
      panel("Requests", scroller("Requests", parts.requests.element)),
      panel("Cancels", scroller("Cancels", parts.receipts.element)),
      panel("KV", scroller("KV", parts.memory.element)),
      detached,
    ),
  );
  model.addEventListener("frame", ({ detail: { receipts } }) => {
    if (receipts.length) announce(announcement(receipts));
    detached.hidden = !model.state.detachable.length;
    lost.hidden = !model.lost;
    setText(lost, `This page was too slow for ${model.lost} events; the figures are right, the picture has gaps.`);
  });
  follow(
    api,
    signal,
    (kind, frame) => model.apply(kind, frame),
    (name, message) => {
      status.className = `status ${name}`;
      setText(status, STATUS[name](message));
    },
  );
  return () => ended.abort();
}

function panel(title, children) {
  const id = `panel-${title.toLowerCase().replaceAll(" ", "-")}`;
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), children);
}
