// "Show me": three requests of this page's own, each hung up on at another moment, and what their receipts say.

import { h } from "../shared/dom.js";
import { Client, free } from "./demo_client.js";
import { phasesOf, progressOf, secondsUntil } from "./reading.js";
import { cost, span, work } from "./receipts.js";

const READ = 3; // seconds that the prompt is to take which is hung up on in its middle
const PROMPT = { least: 1024, unknown: 4000, most: 30_000 }; // tokens of it, where the context has room
const SHORT = 3; // times that a prompt says something
const SAMPLE = 20; // times in one that tells how fast prompts are read
const WRITTEN = 10; // pieces of its answer that a writer gets, before something is done to it
const ATTEMPTS = 5; // to hang up at the moment that is to be shown
const LATELY = 0.5; // seconds before a cancel, in which it shows whether tokens are drafted
const FRAME = 0.25; // seconds; the feed's next frame has come by then
const LOOK = 1200; // milliseconds for which there is something to look at, before the next thing happens
const MOST_CHOICES = 16; // of one request
const MOST_FILLERS = 2; // requests: a browser opens few connections
const PATIENCE = 60; // seconds

const WAITS = "It needs every slot to be taken first, so that somebody has to wait.";

/** What this page is, and the button; `api` asks, and what happens is seen in the model. */
export class ShowMe {
  constructor(api, model, timeline, hasChat, signal) {
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
        h(
          "div",
          { class: "says" },
          h("p", { class: "lead" }, "This is a model server at work: who is answered, who waits, and what becomes of those who leave."),
          h("p", {}, "Somebody closes a tab. The work for them stops within one layer of the model, their slot is free, and what was computed is kept for the retry. ", h("b", {}, "Show me"), " plays a sample: three requests of this page, each hung up on at another moment."),
        ),
        this.button,
        hasChat && h("a", { class: "button", href: "#/chat" }, "Chat with the model"),
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
      // Beside somebody who writes, a prompt is read in short steps, and little is lost with the step in flight.
      const writer = free(this.model.state.slots) > 1 ? await this.writer(client, SAMPLE) : null;
      await this.cancelPrefill(client, writer);
      await this.cancelWriter(client, writer);
      await this.cancelQueued(client);
    } catch (error) {
      if (!this.signal.aborted) this.tell("It broke off", "").text(error.message);
    } finally {
      clients.forEach((each) => each.hangUp());
      setTimeout(() => this.signal.aborted || this.timeline.stop(), LOOK); // so that one can look at it
      this.isRunning = this.button.disabled = false;
    }
  }

  /** Somebody who writes, and goes on. */
  async writer(client, times) {
    const made = client({ prompt: repeated(times), max_tokens: -1, ignore_eos: true, temperature: 0 });
    await made.opened;
    await made.received(WRITTEN);
    return made;
  }

  async cancelPrefill(client, writer) {
    const line = this.tell("Hung up while its prompt is read", "prefill");
    let known = writer && (await this.until(() => progressOf(this.model, writer.id)));
    for (let left = ATTEMPTS; left; left -= 1) {
      const wanted = known ? Math.min(Math.max(PROMPT.least, READ * known.rate), PROMPT.most) : PROMPT.unknown;
      const tokens = Math.floor(Math.min(wanted, this.model.facts.context - 64));
      line.text(`It has ${tokens} tokens …`);
      const victim = client({ prompt: randomTokens(tokens), max_tokens: -1, ignore_eos: true });
      const id = await victim.opened;
      await this.halfRead(id, tokens);
      victim.hangUp();
      const receipt = await this.receipt(id);
      line.receipt(receipt, readSentence(receipt));
      if (isHalf(receipt)) return;
      known = progressOf(this.model, id) ?? known;
    }
  }

  async cancelWriter(client, writer) {
    const line = this.tell("Hung up while it writes", "decode").text("It writes …");
    let current = writer;
    const goesOn = async () => (current && !this.hasEnded(current.id) ? current : (current = await this.writer(client, SHORT)));
    await goesOn();
    await pause(LOOK);
    for (let left = ATTEMPTS; left; left -= 1) {
      const victim = await goesOn();
      victim.hangUp();
      current = null;
      const receipt = await this.receipt(victim.id);
      line.receipt(receipt, writtenSentence(receipt));
      const phases = phasesOf(this.model, victim.id, receipt.detected_at - LATELY);
      const wanted = ["draft", "verify"].find((phase) => phases.has(phase)); // while it drafts, let it be in a draft
      if (!wanted || receipt.phase === wanted) return;
    }
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

  /** Wait until half of a prompt should be read: by what the feed has told, and from the last of it on by the clock. */
  async halfRead(id, tokens) {
    const remaining = () => {
      const progress = progressOf(this.model, id);
      return progress ? secondsUntil(progress, tokens / 2, this.timeline.viewport.now) : Infinity;
    };
    await this.until(() => remaining() < FRAME || this.hasEnded(id) || this.find(id)?.completion_tokens > 0);
    await pause(Math.max(0, remaining() * 1e3));
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

  /** Wait until something holds, and return it; it is looked at with each frame. */
  until(condition) {
    return new Promise((resolve, reject) => {
      const ended = new AbortController();
      const end = (settle, value) => (ended.abort(), clearTimeout(timer), settle(value));
      const late = () => end(reject, new Error(`Nothing came of it within ${PATIENCE} s: the server is busy with others.`));
      const timer = setTimeout(late, PATIENCE * 1e3);
      const look = () => {
        const found = condition();
        if (found) end(resolve, found);
      };
      this.model.addEventListener("frame", look, { signal: ended.signal });
      this.signal.addEventListener("abort", () => end(reject, new Error("the view was left")), { signal: ended.signal });
      look();
    });
  }

  /** Add a card, and return what writes into it. */
  tell(title, phase) {
    const told = h("div", {});
    const card = h("li", { class: phase }, h("h2", {}, title), told);
    this.told.append(card);
    return {
      text(sentence) {
        told.replaceChildren(h("p", {}, sentence));
        return this;
      },
      receipt(receipt, sentence) {
        card.className = receipt.phase;
        told.replaceChildren(h("p", { class: "freed" }, ...freed(receipt)), h("p", {}, sentence, " ", receipt.slot_freed_at === null ? cost(receipt) : work(receipt)));
      },
    };
  }
}

function freed({ detected_at: detected, slot_freed_at: at }) {
  if (at === null) return [h("b", {}, "0 ms"), " of the device's time"];
  return [h("b", {}, span(detected, at)), " until its slot was free"];
}

/** Whether about half of its prompt was read and stays. */
function isHalf({ phase, prompt_tokens: prompt, kept_tokens: kept }) {
  return phase === "prefill" && kept > prompt / 4 && kept < (3 * prompt) / 4;
}

function readSentence({ phase, computed_tokens: computed, prompt_tokens: prompt }) {
  if (phase === "prefill") return `After ${computed} of its ${prompt} tokens.`;
  return `A moment late: this machine had read all ${prompt} tokens.`;
}

function writtenSentence({ phase, drafted_tokens: drafted, accepted_tokens: accepted }) {
  const where = { draft: "While its next tokens were drafted", verify: "While drafts for it were verified" }[phase] ?? "In the middle of a sentence";
  return drafted ? `${where}; ${accepted} of ${drafted} drafts were accepted.` : `${where}.`;
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Ids of tokens that no prompt before has begun with; any vocabulary has as many. */
function randomTokens(length) {
  return Array.from({ length }, () => 10 + Math.floor(Math.random() * 200));
}

/** A text that repeats itself, so that it goes on doing so and drafts are likely to stand. */
function repeated(times) {
  const name = `step_${Math.floor(Math.random() * 1e4)}`;
  return `def ${name}(x):\n    return x + 1\n\n\n`.repeat(times);
}
