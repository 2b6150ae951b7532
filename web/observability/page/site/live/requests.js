// The live requests as the trees that they are: a request's scope, and in it an actor for each generation.

import { h, setText } from "../shared/dom.js";

const MOST = 40;
/** What a generation does, and a slot, by its state. */
export const DOING = {
  prefill: "reads its prompt",
  draft: "drafts",
  verify: "verifies drafts",
  decode: "writes",
  queued: "waits",
  parked: "is preempted, until a slot is free for it",
  done: "is done",
  lost: "lost its device",
  idle: "is free",
};

/** Shows the requests of a model; `hangUp(id)` cancels one. */
export class Requests {
  constructor(model, hangUp, signal) {
    this.model = model;
    this.hangUp = hangUp;
    this.items = new Map(); // by id: an element stays while its request lives, and so does the focus on its button
    this.list = h("ul", { class: "requests" });
    this.empty = h("p", { class: "hint" }, "Nobody asks for anything now.");
    this.more = h("p", { class: "hint", hidden: true });
    this.element = h("div", {}, this.list, this.empty, this.more);
    model.addEventListener("frame", () => this.show(), { signal });
  }

  show() {
    const { requests } = this.model.state;
    const shown = requests.slice(0, MOST);
    const ids = new Set(shown.map(({ id }) => id));
    for (const [id, { element }] of this.items) {
      if (ids.has(id)) continue;
      element.remove();
      this.items.delete(id);
    }
    const ahead = placesOf(requests);
    for (const request of shown) {
      let item = this.items.get(request.id);
      if (!item) this.items.set(request.id, (item = this.make(request)));
      this.update(item, request, ahead);
      if (!item.element.parentElement) this.list.append(item.element);
    }
    this.empty.hidden = requests.length > 0;
    this.more.hidden = requests.length <= MOST;
    this.more.textContent = `and ${requests.length - MOST} more`;
  }

  make(request) {
    const { id, owner } = request;
    const figures = h("span", { class: "figures" });
    const button = h("button", { type: "button", class: "hangup", "aria-label": `Hang up on ${id}` }, "Hang up");
    button.addEventListener("click", () => {
      button.disabled = true;
      this.hangUp(id).finally(() => (button.disabled = false));
    });
    const actors = h("ul", {});
    const name = h("code", { title: id }, id);
    const scope = h("div", { class: "scope" }, name, owner && h("span", { class: "owner" }, owner), button);
    const kin = kinText(request);
    const element = h("li", {}, scope, kin && h("span", { class: "said" }, kin), figures, actors);
    return { element, figures, actors };
  }

  update({ figures, actors }, request, ahead) {
    setText(figures, scopeText(request, this.model.at));
    while (actors.children.length > request.states.length) actors.lastChild.remove();
    request.states.forEach((state, index) => {
      const line = actors.children[index] ?? actors.appendChild(h("li", {}));
      line.className = state;
      setText(line, this.actorText(request, index, ahead));
    });
  }

  actorText(request, index, ahead) {
    const state = request.states[index];
    const name = request.states.length > 1 ? `${index}: ` : "";
    if (state === "queued") return `${name}${this.whyWaiting(request, ahead.get(`${request.id}/${index}`))}`;
    const slot = request.slots[index];
    const leader = this.model.leaders.get(request.id)?.[0];
    if (leader) {
      const whom = leader.request_id ?? "another request";
      return `${name}in slot ${slot}, waits for ${whom} to read ${leader.shared_tokens} tokens that both prompts begin with`;
    }
    return `${name}${DOING[state] ?? state}${slot === null ? "" : ` in slot ${slot}`}`;
  }

  whyWaiting({ after }, place) {
    const { health, requests } = this.model.state;
    const why = health ?? (requests.some(({ id }) => id === after) ? `${after} has not ended` : this.whyNobodyIsNext());
    return `${place === 0 ? "next" : `${place} before it`}: ${why}`;
  }

  whyNobodyIsNext() {
    const { slots, statistics } = this.model.state;
    if (slots.every(({ state }) => state !== "idle")) return "every slot is taken";
    const { promised, positions } = statistics.manager.pool;
    return promised ? `${promised} of ${positions} tokens of KV are reserved for those who run` : "its turn comes";
  }
}

/** How many wait before each of those that wait. */
function placesOf(requests) {
  const places = new Map();
  for (const { id, states } of requests) {
    states.forEach((state, index) => state === "queued" && places.set(`${id}/${index}`, places.size));
  }
  return places;
}

/** What a request said of itself and of related requests; an empty text for nothing. */
export function kinText({ group, first_wins: races, supersede, after, warm }) {
  const parts = [];
  if (warm) parts.push("warms its prompt");
  if (group !== null) parts.push(`${races ? "races in" : "of"} group ${group}`);
  if (supersede !== null) parts.push(`the newest of ${supersede}`);
  if (after !== null) parts.push(`after ${after}`);
  return parts.join(" · ");
}

function scopeText({ prompt_tokens: prompt, completion_tokens: written, deadline, created, parks, parked_seconds: parked }, now) {
  const parts = [`prompt ${prompt}`, `written ${written}`, `for ${Math.max(0, now - created).toFixed(0)} s`];
  if (parks) parts.push(`preempted ${parks === 1 ? "once" : `${parks} times`}, ${parked.toFixed(1)} s`);
  if (deadline !== null) parts.push(`${Math.max(0, deadline - now).toFixed(0)} s left`);
  return parts.join(" · ");
}
