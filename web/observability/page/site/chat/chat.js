// The chat: conversations with the served model, kept in the browser.
//
//   state     conversations, what requests make of them, and what keeps them; no DOM
//   markdown  Markdown and code as safe elements
//   view      what is seen of it

import { h } from "../shared/dom.js";
import { ChatSession } from "./state/session.js";
import { SettingsError } from "./state/settings.js";
import { ConversationStorage } from "./state/storage.js";
import { Composer } from "./view/composer.js";
import { SettingsPanel } from "./view/settings.js";
import { Sidebar } from "./view/sidebar.js";
import { Transcript } from "./view/transcript.js";

const HERE = "#/chat"; // what the address ends with, and behind it the conversation's name
const WIDE = "(min-width: 70rem)"; // room for both panels beside the conversation

/** By the page's API: the session outlives the view, so that one can watch in another view what an answer does. */
const sessions = new WeakMap();

/**
 * Show the chat.
 * @param {HTMLElement} element
 * @param {{api: import("../shared/api.js").Api, announce: (sentence: string) => void}} context
 * @returns {() => void} takes it away; an answer that is being written goes on
 */
export function mount(element, { api, announce }) {
  if (!sessions.has(api)) sessions.set(api, startSession(api));
  const view = new ChatView(element, sessions.get(api), announce);
  return () => view.end();
}

function startSession(api) {
  const session = new ChatSession({
    api,
    storage: new LateStorage(ConversationStorage.open()),
    now: () => Date.now(),
    newId,
    pause: (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); }),
  });
  session.load(namedConversation());
  return session;
}

/** A name that no other has.  `crypto.randomUUID` is for secure contexts only, which plain HTTP from elsewhere is not. */
function newId() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function namedConversation() {
  return location.hash.slice(HERE.length + 1);
}

/** A storage that is still being opened. */
class LateStorage {
  /** @param {Promise<ConversationStorage>} opening */
  constructor(opening) {
    this.opening = opening;
    opening.catch(() => {}); // told to each who asks
  }

  async all() { return (await this.opening).all(); }
  async get(id) { return (await this.opening).get(id); }
  async put(conversation) { return (await this.opening).put(conversation); }
  async remove(id) { return (await this.opening).remove(id); }
  watch(listener) { this.opening.then((storage) => storage.watch(listener), () => {}); }
}

class ChatView {
  #frame = 0;

  /** @param {HTMLElement} element @param {ChatSession} session @param {(sentence: string) => void} announce */
  constructor(element, session, announce) {
    this.session = session;
    this.wide = matchMedia(WIDE);
    this.sidebar = new Sidebar(session, announce, () => this.#chosen());
    this.settings = new SettingsPanel(session);
    this.transcript = new Transcript(this.#turnActions(), announce);
    this.composer = new Composer({
      send: (text) => this.#ask(() => session.send(text), () => this.composer.clear()),
      stop: () => session.stop(),
    });
    this.toggles = [panelToggle("Conversations", this.sidebar.element), panelToggle("Settings", this.settings.element)];
    this.element = h(
      "div",
      { class: "chat" },
      this.sidebar.element,
      h("section", { class: "conversation", "aria-label": "Chat" },
        h("div", { class: "chat-bar" }, this.toggles), this.transcript.element, this.composer.element, this.transcript.spoken),
      this.settings.element,
    );
    element.append(this.element);
    takeDrops(this.element, (files) => this.composer.attach(files));
    this.layOut = () => this.toggles.forEach((toggle) => toggle.set(this.wide.matches));
    this.wide.addEventListener("change", this.layOut);
    this.layOut();
    this.keydown = (event) => this.#keydown(event);
    document.addEventListener("keydown", this.keydown);
    this.hashchange = () => this.#go(namedConversation());
    window.addEventListener("hashchange", this.hashchange);
    this.unsubscribe = session.subscribe(() => this.#schedule());
    this.#go(namedConversation());
    this.#render();
    this.composer.focus();
  }

  end() {
    cancelAnimationFrame(this.#frame);
    this.unsubscribe();
    this.wide.removeEventListener("change", this.layOut);
    document.removeEventListener("keydown", this.keydown);
    window.removeEventListener("hashchange", this.hashchange);
    this.element.remove();
  }

  /** Render in the next frame, once, however much changes before it. */
  #schedule() {
    this.#frame ||= requestAnimationFrame(() => this.#render());
  }

  #render() {
    this.#frame = 0;
    const focused = this.element.contains(document.activeElement);
    this.sidebar.update();
    this.settings.update();
    this.composer.update(this.session);
    this.transcript.update(this.session);
    this.#nameConversation();
    // A button that was pressed and is no longer there must not leave whoever uses keys at the top of the page.
    if (focused && document.activeElement === document.body) this.transcript.element.focus();
  }

  #go(id) {
    if (this.session.has(id)) this.session.show(id);
    this.#schedule(); // the address says which it is
  }

  /** Let the address name what is shown, so that a reload and a link show it again. */
  #nameConversation() {
    if (!this.session.loaded) return;
    const { currentId } = this.session;
    const address = this.session.has(currentId) ? `${HERE}/${currentId}` : HERE;
    if (location.hash !== address && location.hash.startsWith(HERE)) history.replaceState(null, "", address);
  }

  #turnActions() {
    const { session } = this;
    return {
      send: (text) => this.#ask(() => session.send(text)),
      resend: (id, text) => this.#ask(() => session.resend(id, text)),
      rewrite: (id, text) => session.rewrite(id, text),
      retry: (id) => this.#ask(() => session.retry(id)),
      continueAnswer: () => this.#ask(() => session.continueAnswer()),
      answerCalls: (results) => this.#ask(() => session.answerCalls(results)),
      choose: (id) => session.choose(id),
    };
  }

  /** Do what asks the server; where the settings are at fault, show where. */
  async #ask(action, begun = () => {}) {
    try {
      const answered = action();
      if (this.session.busy) begun();
      await answered;
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error;
      this.composer.complain(error.message);
      this.toggles[1].set(true);
      this.settings.point(error);
    }
  }

  #chosen() {
    if (!this.wide.matches) this.toggles[0].set(false);
    this.composer.focus();
  }

  #keydown(event) {
    if (event.key !== "Escape") return;
    if (this.session.busy) this.session.stop();
    else if (!this.wide.matches) this.toggles.forEach((toggle) => toggle.close());
  }
}

/** Let files be dropped on an element; elsewhere a browser would leave the page for them. */
function takeDrops(element, take) {
  element.addEventListener("dragover", (event) => {
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
  });
  element.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    take([...event.dataTransfer.files]);
  });
}

/** A button that shows and hides a panel, and goes into what it shows; `set` shows it, too, and `close` comes back. */
function panelToggle(label, panel) {
  const set = (shown) => {
    panel.hidden = !shown;
    button.setAttribute("aria-expanded", String(shown));
  };
  const press = () => {
    set(panel.hidden);
    if (!panel.hidden) panel.querySelector("button, select").focus();
  };
  const button = h("button", { type: "button", class: "quiet", "aria-controls": panel.id, onclick: press }, label);
  const close = () => {
    if (panel.hidden) return;
    set(false);
    button.focus();
  };
  return Object.assign(button, { set, close });
}
