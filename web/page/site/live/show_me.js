// "Show me": three requests of this page's own, each hung up on at another moment, and what their receipts say.

import { h } from "../shared/dom.js";
import { Client, free } from "./demo_client.js";
import { cost, span, work } from "./receipts.js";

const LONG = 4000; // tokens of the prompt that is hung up on while it is read, where the context has room
const SHORT = 24;
const WRITTEN = 10; // tokens that the second one gets before its client leaves
const LOOK = 1200; // milliseconds for which there is something to look at, before the next thing happens
const MOST_CHOICES = 16; // of one request
const MOST_FILLERS = 2; // requests: a browser opens few connections
const PATIENCE = 60; // seconds

const WAITS = "It needs every slot to be taken first, so that somebody has to wait.";

/** The panel with the button; `api` asks, and what happens is seen in the model. */
export class ShowMe {
  constructor(api, model, timeline, signal) {
    this.api = api;
    this.model = model;
    this.timeline = timeline;
    this.signal = signal;
    this.button = h("button", { type: "button", class: "primary", disabled: true, onclick: () => this.show() }, "Show me");
    this.told = h("ol", { class: "told", "aria-live": "polite" });
    this.element = h(
      "section",
      { class: "show-me", "aria-label": "What a cancel is" },
      h(
        "div",
        { class: "pitch" },
        h("p", {}, "Somebody closes a tab. The work for them stops within one layer of the model, their slot is free, and what was computed is kept for the retry."),
        this.button,
      ),
      this.told,
    );
    model.addEventListener("frame", () => (this.button.disabled = this.isRunning), { signal });
  }

  async show() {
    this.isRunning = this.button.disabled = true;
    this.told.replaceChildren();
    this.timeline.goOn();
    const clients = [];
    const client = (body) => {
      const made = new Client(this.api, body, this.signal);
      clients.push(made);
      return made;
    };
    try {
      await this.cancelPrefill(client);
      await this.cancelDecodeAndQueue(client);
    } catch (error) {
      if (!this.signal.aborted) this.tell("It broke off", "").text(error.message);
    } finally {
      clients.forEach((each) => each.hangUp());
      setTimeout(() => this.signal.aborted || this.timeline.stop(), LOOK); // so that one can look at it
      this.isRunning = this.button.disabled = false;
    }
  }

  async cancelPrefill(client) {
    const tokens = Math.min(LONG, this.model.facts.context - 64);
    const line = this.tell("Hung up while its prompt is read", "prefill").text(`It has ${tokens} tokens …`);
    const victim = client({ prompt: randomTokens(tokens), max_tokens: 16 });
    const id = await victim.opened;
    await this.until(() => this.hasRead(id));
    victim.hangUp();
    const receipt = await this.receipt(id);
    const { phase, computed_tokens: computed, prompt_tokens: prompt } = receipt;
    const early = phase === "prefill" ? `After ${computed} of its ${prompt} tokens.` : `A moment late: this machine had read all ${prompt} tokens.`;
    line.receipt(receipt, early);
  }

  async cancelDecodeAndQueue(client) {
    const line = this.tell("Hung up while it writes", "decode").text("It writes …");
    const writer = client({ prompt: repeated(SHORT), max_tokens: -1, ignore_eos: true });
    const id = await writer.opened;
    await Promise.all([writer.received(WRITTEN), pause(LOOK)]);
    await this.cancelQueued(client);
    writer.hangUp();
    const receipt = await this.receipt(id);
    const { accepted_tokens: accepted, drafted_tokens: drafted } = receipt;
    line.receipt(receipt, drafted ? `In the middle of a sentence, for which ${accepted} of ${drafted} drafted tokens had stood.` : "In the middle of a sentence.");
  }

  async cancelQueued(client) {
    const line = this.tell("Hung up while it waits", "queued").text(WAITS);
    const { slots } = this.model.state;
    const missing = free(slots);
    if (this.model.facts.queue === 0) return line.text("This server lets nobody wait, so nobody can leave its queue.");
    if (missing > MOST_FILLERS * MOST_CHOICES) return line.text(`${WAITS} This server has ${slots.length}, more than a page can fill.`);
    const body = { prompt: repeated(SHORT), max_tokens: -1, ignore_eos: true };
    for (let left = missing; left > 0; left -= MOST_CHOICES) await client({ ...body, n: Math.min(left, MOST_CHOICES) }).opened;
    await this.until(() => free(this.model.state.slots) === 0);
    const waiting = client({ ...body, max_tokens: 8 });
    const id = await waiting.opened;
    await Promise.all([this.until(() => this.isKnown(id)), pause(LOOK)]);
    waiting.hangUp();
    const receipt = await this.receipt(id);
    return line.receipt(receipt, receipt.slot_freed_at === null ? "Those who wrote went on writing." : "A slot came free for it too soon.");
  }

  /** Whether a chunk of its prompt is done, so that there is something to keep; or it is too late for that. */
  hasRead(id) {
    const chunk = this.model.slots.some(({ spans }) => spans.last?.id === id && spans.last.phase === "prefill");
    return chunk || this.hasEnded(id) || this.find(id)?.completion_tokens > 0;
  }

  /** Whether the server has told of it: that it waits, or that it came too late for that. */
  isKnown(id) {
    return this.hasEnded(id) || this.find(id) !== undefined;
  }

  hasEnded(id) {
    return [...this.model.ended].includes(id);
  }

  find(id) {
    return this.model.state.requests.find((request) => request.id === id);
  }

  async receipt(id) {
    await this.until(() => this.model.receiptOf(id) ?? this.hasEnded(id));
    const receipt = this.model.receiptOf(id);
    if (!receipt) throw new Error("It had ended before anybody could hang up.");
    return receipt;
  }

  /** Wait until something holds; it is looked at with each frame. */
  until(condition) {
    return new Promise((resolve, reject) => {
      const ended = new AbortController();
      const end = (settle, value) => (ended.abort(), clearTimeout(timer), settle(value));
      const late = () => end(reject, new Error(`Nothing came of it within ${PATIENCE} s: the server is busy with others.`));
      const timer = setTimeout(late, PATIENCE * 1e3);
      const look = () => condition() && end(resolve);
      this.model.addEventListener("frame", look, { signal: ended.signal });
      this.signal.addEventListener("abort", () => end(reject, new Error("the view was left")), { signal: ended.signal });
      look();
    });
  }

  /** Add a card, and return what writes into it. */
  tell(title, phase) {
    const told = h("div", {});
    this.told.append(h("li", { class: phase }, h("h2", {}, title), told));
    return {
      text(sentence) {
        told.replaceChildren(h("p", {}, sentence));
        return this;
      },
      receipt(receipt, sentence) {
        told.replaceChildren(h("p", { class: "freed" }, ...freed(receipt)), h("p", {}, sentence, " ", receipt.slot_freed_at === null ? cost(receipt) : work(receipt)));
      },
    };
  }
}

function freed({ detected_at: detected, slot_freed_at: at }) {
  if (at === null) return [h("b", {}, "0 ms"), " of the device's time"];
  return [h("b", {}, span(detected, at)), " until its slot was free"];
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Ids of tokens that no prompt before has begun with; any vocabulary has as many. */
function randomTokens(length) {
  return Array.from({ length }, () => 10 + Math.floor(Math.random() * 200));
}

/** A text that repeats itself, so that drafts are likely to stand. */
function repeated(length) {
  const phrase = [40, 41, 42, 43].map((token) => token + Math.floor(Math.random() * 100));
  return Array.from({ length }, (_, place) => phrase[place % phrase.length]);
}
