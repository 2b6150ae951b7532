// The requests that may outlive their clients: who reads them, and until when their answers are kept.

import { counted } from "../shared/counted.js";
import { h, setText } from "../shared/dom.js";

/** Shows those of a model in a panel of its own; `end(id)` ends one, or drops its answer. */
export class Detached {
  constructor(model, end, signal) {
    this.model = model;
    this.end = end;
    this.items = new Map(); // by id
    this.sums = h("p", { class: "hint" });
    this.list = h("ul", { class: "detached" });
    this.element = h("div", {}, this.sums, this.list);
    model.addEventListener("frame", () => this.show(), { signal });
  }

  show() {
    const { detachable, statistics } = this.model.state;
    const ids = new Set(detachable.map(({ id }) => id));
    for (const [id, { element }] of this.items) {
      if (ids.has(id)) continue;
      element.remove();
      this.items.delete(id);
    }
    for (const run of detachable) {
      let item = this.items.get(run.id);
      if (!item) this.items.set(run.id, (item = this.make(run)));
      setText(item.figures, howItStands(run, this.model.at));
      setText(item.button, run.kept_until === null ? "End" : "Drop");
      item.button.setAttribute("aria-label", `${run.kept_until === null ? "End" : "Drop the answer of"} ${run.id}`);
      if (!item.element.parentElement) this.list.append(item.element);
    }
    setText(this.sums, sumsText(statistics.detachable, detachable.length));
  }

  make({ id, owner }) {
    const figures = h("span", { class: "figures" });
    const button = h("button", { type: "button", class: "hangup" }, "End");
    button.addEventListener("click", () => {
      button.disabled = true;
      this.end(id).finally(() => (button.disabled = false));
    });
    const scope = h("div", { class: "scope" }, h("code", { title: id }, id), owner && h("span", { class: "owner" }, owner), button);
    return { element: h("li", {}, scope, figures), figures, button };
  }
}

/** Who reads a request now, and what becomes of it. */
export function howItStands({ readers, attaches, detached_at: left, kept_until: until, on_disconnect: choice, unread_tokens: unread }, now) {
  const parts = [];
  if (until !== null) parts.push(`ended, kept for ${seconds(until - now)} more`);
  if (readers) parts.push(readers === 1 ? "one reader" : `${readers} readers`);
  else if (until === null) parts.push(left === null ? "nobody reads it yet" : `nobody reads it for ${seconds(now - left)}`);
  if (unread && !readers && until === null) parts.push(`${counted(unread, "token")} since`);
  if (attaches) parts.push(`attached ${attaches === 1 ? "once" : `${attaches} times`}`);
  if (until === null && choice !== "cancel") parts.push(choice === "detach" ? "goes on" : "reads its prompt to the end");
  return parts.join(" · ");
}

/** How many there are, of which a part may be shown. */
export function sumsText(sums, shown) {
  if (!sums) return "";
  const { running, detached, kept, attaches } = sums;
  const more = running + kept - shown;
  const answers = `${counted(kept, "answer")} kept`;
  return `${running} run, ${detached} of them with nobody reading; ${answers}; ${attaches} came back so far${more > 0 ? `; ${more} are not shown` : ""}.`;
}

function seconds(value) {
  return `${Math.max(0, value).toFixed(0)} s`;
}
