// The view of a cluster: all workers side by side, or one as a server's page shows it.

import { h, setText } from "../shared/dom.js";
import { follow } from "./feed.js";
import { Fleet } from "./fleet.js";
import { Overview } from "./overview.js";
import { connection, Panels } from "./panels.js";
import { announcement } from "./receipts.js";

/** Show it; see app.js. */
export function mount(element, context) {
  const view = new WorkersView(element, context);
  return () => view.end();
}

class WorkersView {
  constructor(element, { api, announce, theme }) {
    this.api = api;
    this.announce = announce;
    this.theme = theme;
    this.fleet = new Fleet();
    this.status = connection();
    this.chosen = null; // the worker that is shown; null for all of them
    this.ended = new AbortController();
    this.shown = new AbortController();
    const { signal } = this.ended;
    this.choice = h("div", { class: "choice", role: "group", "aria-label": "Workers" });
    this.statuses = h("div", { class: "statuses" });
    this.body = h("div", { class: "shown" });
    element.append(this.choice, this.statuses, this.body);
    this.fleet.addEventListener("workers", () => this.offer(), { signal });
    this.fleet.addEventListener("frame", ({ detail: { receipts } }) => receipts.length && announce(announcement(receipts)), { signal });
    this.choose(null);
    follow(api, signal, (kind, value) => this.fleet.apply(kind, value), this.status.tell, () => this.fleet.begin());
  }

  end() {
    this.shown.abort();
    this.ended.abort();
  }

  /** Show a worker, or all of them. */
  choose(worker) {
    this.shown.abort();
    this.shown = new AbortController();
    this.chosen = worker;
    this.model = this.fleet.workers.get(worker)?.model;
    const { signal } = this.shown;
    if (worker === null) {
      this.statuses.append(this.status.element);
      this.body.replaceChildren(...new Overview(this.fleet, (chosen) => this.choose(chosen), signal).elements);
    } else {
      const { theme, status } = this;
      const panels = new Panels(this.model, { hangUp: (id) => this.hangUp(id, worker), theme, status: status.element, signal });
      this.body.replaceChildren(...panels.elements);
      this.model.tellAgain();
    }
    this.offer();
  }

  /** Offer the workers that there are; when the one that is shown is gone, all are shown. */
  offer() {
    const { workers } = this.fleet;
    if (this.chosen !== null && workers.get(this.chosen)?.model !== this.model) return this.choose(null);
    const ids = [null, ...[...workers.keys()].sort()];
    const known = [...this.choice.children].map(({ value }) => value || null);
    if (ids.join() !== known.join()) this.choice.replaceChildren(...ids.map((worker) => this.button(worker)));
    for (const button of this.choice.children) {
      const { value } = button;
      button.setAttribute("aria-pressed", String((value || null) === this.chosen));
      if (value) setText(button, workers.get(value).standing === "silent" ? `${value}: says nothing` : value);
    }
  }

  button(worker) {
    return h("button", { type: "button", value: worker ?? "", onclick: () => this.choose(worker) }, worker ?? "All workers");
  }

  /** End a request of a worker: another may have one of the same id. */
  hangUp(id, worker) {
    const path = `v1/requests/${encodeURIComponent(id)}?worker=${worker}`;
    return this.api.json(path, { method: "DELETE" }).catch((error) => this.announce(error.message));
  }
}
