// All conversations, and the requests that are writing to them.  This class alone changes them; a view is told that
// something has changed, and reads.

/** @import { Conversation } from "./conversation.js" */
/** @import { Settings } from "./settings.js" */
/** @import { Turn, TurnEvent } from "./turn.js" */

import { inWords } from "../../shared/reached.js";
import { readEvents } from "../../shared/sse.js";
import { ask, comeBack, end } from "./asking.js";
import { makeConversation, openCalls, pathOf, withChanged, withChosen, withOthers, withTurn, withoutLive } from "./conversation.js";
import { Keeper } from "./keeper.js";
import { findReceipts } from "./receipt.js";
import { requestBody } from "./request.js";
import { DEFAULTS } from "./settings.js";
import { streamEvents } from "./stream.js";
import { awaiting, isLive, makeTurn, reduceTurn } from "./turn.js";

/**
 * @typedef {object} Surroundings
 * @property {import("../../shared/api.js").Api} api
 * @property {{all: Function, get: Function, put: Function, remove: Function, watch: Function}} storage
 * @property {() => number} now  milliseconds since the epoch
 * @property {() => string} newId
 * @property {(milliseconds: number) => Promise<void>} pause
 */

export class ChatSession {
  #api;
  #keeper;
  #now;
  #newId;
  /** @type {Map<string, Conversation>} */
  #conversations = new Map();
  /** @type {Map<string, AbortController>} by conversation */
  #requests = new Map();
  #listeners = new Set();
  #draft;

  /** @param {Surroundings} surroundings */
  constructor({ api, storage, now, newId, pause }) {
    this.#api = api;
    this.#now = now;
    this.#newId = newId;
    this.#keeper = new Keeper({ storage, pause }, (id) => this.#conversations.get(id), (fault) => this.#complain(fault));
    this.#draft = makeConversation(newId(), now(), DEFAULTS);
    /** @type {object[]} as /v1/models has them */
    this.models = [];
    this.currentId = this.#draft.id;
    /** Whether what was kept has been read. */
    this.loaded = false;
    /** Another number whenever the list of conversations is another one. */
    this.listVersion = 0;
    /** @type {string | null} what is wrong although nobody has asked for anything: in the browser's storage, say */
    this.fault = null;
    storage.watch((id) => this.#refresh(id));
  }

  // --- to be read -------------------------------------------------------------------------------------------------------

  /** @returns {Conversation} the one that is shown */
  get current() {
    return this.#conversations.get(this.currentId) ?? this.#draft;
  }

  /** @returns {Conversation[]} the latest first */
  get conversations() {
    return [...this.#conversations.values()].sort((one, other) => other.changed - one.changed);
  }

  /** @returns {boolean} whether an answer is being written to the conversation that is shown */
  get busy() {
    return this.#requests.has(this.currentId);
  }

  /** @param {() => void} listener  called after each change @returns {() => void} ends that */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // --- conversations ----------------------------------------------------------------------------------------------------

  /** Read what was kept, and what the server serves. @param {string} [id]  what is shown then, if it was kept */
  async load(id) {
    await Promise.all([this.#loadKept(id), this.#loadModels()]);
  }

  /** Show an empty conversation with the settings of the one that was shown. */
  startNew() {
    this.#draft = makeConversation(this.#newId(), this.#now(), this.current.settings);
    this.show(this.#draft.id);
  }

  /** @param {string} id @returns {boolean} whether there is a conversation of this name */
  has(id) {
    return this.#conversations.has(id);
  }

  /** @param {string} id */
  show(id) {
    this.currentId = id;
    this.#listChanged();
  }

  /** @param {string} id @param {string} title */
  rename(id, title) {
    this.#put({ ...this.#conversations.get(id), title: title.trim() });
    this.#listChanged();
  }

  /** @param {string} id  whose answer is stopped, if one is being written; it is shown until it is no longer kept */
  async remove(id) {
    this.#requests.get(id)?.abort();
    await this.#keeper.remove(id, () => this.#conversations.delete(id));
    if (id === this.currentId) this.startNew();
    this.#listChanged();
  }

  /**
   * Add conversations.  One that is here already stays one; where another has its id, the new one gets an id of its own.
   * @param {Conversation[]} conversations
   */
  add(conversations) {
    for (const conversation of conversations) {
      const here = this.#conversations.get(conversation.id);
      const taken = here && JSON.stringify(here) !== JSON.stringify(conversation);
      this.#put(withoutLive(taken ? { ...conversation, id: this.#newId() } : conversation));
    }
    this.#listChanged();
  }

  /** @param {Partial<Settings>} settings  of the conversation that is shown */
  configure(settings) {
    this.#put({ ...this.current, settings: { ...this.current.settings, ...settings } });
  }

  // --- turns ------------------------------------------------------------------------------------------------------------
  // Those that ask the server return when the answer has ended, and throw SettingsError before anything has changed.

  /** @param {string} text */
  async send(text) {
    await this.#ask([this.#made("user", { content: text })]);
  }

  /** Ask again with another text in the place of a turn. @param {string} id @param {string} text */
  async resend(id, text) {
    const { parent, role, toolCallId } = this.current.turns[id];
    await this.#ask([this.#made(role, { parent, content: text, toolCallId })]);
  }

  /** Have another text in the place of an answer; nothing is asked. @param {string} id @param {string} text */
  rewrite(id, text) {
    const { parent, reasoning, toolCalls, format, model } = this.current.turns[id];
    this.#put(withTurn(this.current, this.#made("assistant", { parent, reasoning, toolCalls, format, model, content: text })));
    this.#listChanged();
  }

  /** Ask for another version of an answer. @param {string} id */
  async retry(id) {
    await this.#ask([], this.current.turns[id].parent);
  }

  /** Let the model go on with the last answer. */
  async continueAnswer() {
    const path = pathOf(this.current);
    await this.#generate(this.currentId, awaiting(path.at(-1), this.#now()), requestBody(this.current, path, true));
  }

  /** Answer the calls that have no result yet. @param {string[]} results  in their order */
  async answerCalls(results) {
    const calls = openCalls(this.current);
    await this.#ask(results.map((content, place) => this.#made("tool", { content, toolCallId: calls[place].id })));
  }

  /** Show another version of a place. @param {string} id */
  choose(id) {
    this.#put(withChosen(this.current, id));
  }

  /** Stop the answer that is being written. */
  stop() {
    this.#requests.get(this.currentId)?.abort();
  }

  // --- how --------------------------------------------------------------------------------------------------------------

  #made(role, fields) {
    return makeTurn({ id: this.#newId(), role, created: this.#now(), parent: this.current.leaf, ...fields });
  }

  /** Add turns, the first where it says and each behind the last, and have the answer written behind them. */
  async #ask(turns, parent = this.current.leaf) {
    let conversation = { ...this.current, leaf: parent };
    for (const [place, turn] of turns.entries()) {
      conversation = withTurn(conversation, place ? { ...turn, parent: conversation.leaf } : turn);
    }
    const body = requestBody(conversation, pathOf(conversation), false);
    if (openCalls(conversation).length && turns.some((turn) => turn.role === "tool")) {
      this.#put(conversation); // other calls of the same answer still want their results
      return;
    }
    const [format, model] = [body.response_format ? "json" : "text", body.model ?? this.models[0]?.id ?? null];
    const answer = this.#made("assistant", { parent: conversation.leaf, format, model });
    this.#put(conversation);
    await this.#generate(conversation.id, awaiting(answer, this.#now()), body);
  }

  async #generate(conversationId, turn, body) {
    if (this.#requests.has(conversationId)) throw new Error("an answer is being written already");
    this.#put(withTurn(this.#conversations.get(conversationId), turn));
    this.#listChanged();
    await this.#write(conversationId, turn.id, async (signal) => {
      const response = await ask(this.#api, body, signal);
      this.#apply(conversationId, turn.id, { type: "opened", requestId: response.headers.get("x-request-id") });
      this.#keeper.save(conversationId); // from now on a reload knows where to come back to
      return response;
    });
  }

  /** Take in what a response says of a turn, until that has ended. */
  async #write(conversationId, turnId, open, now = this.#now) {
    const controller = new AbortController();
    const { signal } = controller;
    this.#requests.set(conversationId, controller);
    const apply = (event) => this.#apply(conversationId, turnId, event);
    try {
      const response = await open(signal);
      for await (const event of streamEvents(readEvents(response), now)) apply(event);
    } catch (error) {
      const live = this.#conversations.get(conversationId)?.turns[turnId];
      if (signal.aborted) end(this.#api, live?.requestId);
      const isOver = signal.aborted || error.code === "request_not_found"; // nobody came back to it in time
      if (live && isLive(live)) apply(isOver ? { type: "stopped" } : { type: "failed", message: inWords(error) });
    } finally {
      this.#requests.delete(conversationId);
      this.#keeper.save(conversationId);
      this.#publish();
    }
    await this.#account(conversationId, turnId);
  }

  #apply(conversationId, turnId, event) {
    const conversation = this.#conversations.get(conversationId);
    if (!conversation) return; // it was removed, and with it the request
    this.#conversations.set(conversationId, withChanged(conversation, reduceTurn(conversation.turns[turnId], event)));
    this.#keeper.saveSoon(conversationId);
    this.#publish();
  }

  /** Ask what the cancel of a turn has cost. */
  async #account(conversationId, turnId) {
    const turn = this.#conversations.get(conversationId)?.turns[turnId];
    if (turn?.status !== "cancelled" || turn.requestId === null) return;
    const receipts = await findReceipts(this.#api, turn.requestId);
    if (!receipts.length || this.#conversations.get(conversationId)?.turns[turnId].requestId !== turn.requestId) return;
    this.#apply(conversationId, turnId, { type: "receipts", receipts });
  }

  async #loadKept(wanted) {
    const kept = await this.#keeper.all();
    const left = [];
    for (const conversation of kept) {
      const last = Object.values(conversation.turns).findLast((turn) => isLive(turn) && turn.requestId !== null);
      this.#conversations.set(conversation.id, withoutLive(conversation, last));
      if (last) left.push([conversation.id, last]);
    }
    this.loaded = true;
    if (this.has(wanted) && !this.has(this.currentId)) this.currentId = wanted;
    const unknown = () => null; // when what was held for us was written
    const open = (turn) => (signal) => comeBack(this.#api, turn, signal);
    const written = left.map(([id, turn]) => this.#write(id, turn.id, open(turn), unknown));
    this.#listChanged();
    await Promise.all(written);
  }

  /** Take over what another tab has kept. */
  async #refresh(id) {
    const kept = await this.#keeper.get(id);
    const mine = this.#conversations.get(id);
    const writing = this.#requests.has(id);
    if (kept) this.#conversations.set(id, mine ? withOthers(kept, mine, writing) : kept);
    else if (kept === null && mine && !writing) {
      this.#conversations.delete(id);
      if (id === this.currentId) this.startNew();
    }
    this.#listChanged();
  }

  async #loadModels() {
    try {
      this.models = (await this.#api.json("v1/models")).data;
      this.#publish();
    } catch (error) {
      this.#complain(`The server does not say what it serves: ${error.message}`);
    }
  }

  #put(conversation) {
    if (conversation.id === this.#draft.id) this.#draft = conversation;
    if (this.#conversations.has(conversation.id) || Object.keys(conversation.turns).length) {
      this.#conversations.set(conversation.id, conversation);
      this.#keeper.save(conversation.id);
    }
    this.#publish();
  }

  #complain(fault) {
    this.fault = fault;
    this.#publish();
  }

  #listChanged() {
    this.listVersion += 1;
    this.#publish();
  }

  #publish() {
    for (const listener of this.#listeners) listener();
  }
}
