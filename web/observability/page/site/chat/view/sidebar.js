// The list of conversations: search, rename, delete, export and import.

/** @import { ChatSession } from "../state/session.js" */

import { h } from "../../shared/dom.js";
import { readArchive, writeArchive } from "../state/archive.js";
import { matches, titleOf } from "../state/conversation.js";

export class Sidebar {
  #seen = "";

  /**
   * @param {ChatSession} session
   * @param {(sentence: string) => void} announce
   * @param {() => void} chosen  a conversation was chosen
   */
  constructor(session, announce, chosen) {
    this.session = session;
    this.announce = announce;
    this.chosen = chosen;
    this.search = h("input", {
      type: "search", placeholder: "Search", "aria-label": "Search conversations", oninput: () => this.update(),
    });
    this.list = h("ul", { class: "conversations" });
    this.message = h("p", { class: "hint", role: "status" });
    this.file = h("input", {
      type: "file", accept: "application/json,.json", hidden: true, "aria-label": "File to import",
      onchange: () => this.#import(),
    });
    this.element = h(
      "aside",
      { class: "sidebar", id: "chat-conversations", "aria-label": "Conversations" },
      h("button", { type: "button", class: "primary", onclick: () => this.#startNew() }, "New conversation"),
      this.search,
      this.list,
      h("div", { class: "row" },
        h("button", { type: "button", onclick: () => this.#export() }, "Export"),
        h("button", { type: "button", onclick: () => this.file.click() }, "Import"),
        this.file),
      this.message,
    );
  }

  update() {
    const { session } = this;
    const seen = [session.listVersion, session.currentId, this.search.value].join("\n");
    if (seen === this.#seen) return;
    this.#seen = seen;
    const sought = this.search.value;
    const found = session.conversations.filter((conversation) => !sought.trim() || matches(conversation, sought));
    this.list.replaceChildren(...found.map((conversation) => this.#entry(conversation)));
    if (!found.length) this.list.append(h("li", { class: "hint" }, sought ? "None has this text." : "None yet."));
  }

  #entry(conversation) {
    const { id } = conversation;
    const title = titleOf(conversation);
    const current = id === this.session.currentId;
    const show = h("button", {
      type: "button", class: "quiet title", "aria-current": current ? "true" : false,
      onclick: () => { this.session.show(id); this.chosen(); },
    }, title);
    const tool = (label, name, onclick) =>
      h("button", { type: "button", class: "quiet small", "aria-label": `${name} ${title}`, title: name, onclick }, label);
    const item = h("li", { class: current ? "current" : "", "data-of": id }, show);
    item.append(
      tool("✎", "Rename", () => this.#rename(item, conversation)),
      tool("✕", "Delete", () => this.#confirmRemoval(item, conversation)),
    );
    return item;
  }

  #rename(item, conversation) {
    const input = h("input", { "aria-label": "Title", onkeydown: (event) => {
      if (event.key === "Escape") this.#redraw(conversation);
      event.stopPropagation();
    } });
    input.value = titleOf(conversation);
    const form = h("form", { class: "row", onsubmit: (event) => {
      event.preventDefault();
      this.session.rename(conversation.id, input.value);
      this.#redraw(conversation);
    } }, input, h("button", {}, "Save"));
    item.replaceChildren(form);
    input.select();
  }

  #confirmRemoval(item, conversation) {
    const remove = h("button", { type: "button", class: "danger", onclick: async () => {
      await this.session.remove(conversation.id);
      this.announce("The conversation was deleted.");
      this.search.focus();
    } }, "Delete");
    item.replaceChildren(
      h("span", { class: "title" }, `Delete “${titleOf(conversation)}”?`),
      remove,
      h("button", { type: "button", onclick: () => this.#redraw(conversation) }, "Cancel"),
    );
    remove.focus();
  }

  /** Show a conversation's title again, with the focus that the form had which was in its place. */
  #redraw({ id }) {
    this.#seen = "";
    this.update();
    this.list.querySelector(`[data-of="${CSS.escape(id)}"] button`)?.focus();
  }

  #startNew() {
    this.session.startNew();
    this.chosen();
  }

  #export() {
    const url = URL.createObjectURL(new Blob([writeArchive(this.session.conversations)], { type: "application/json" }));
    h("a", { href: url, download: "conversations.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser reads it after the click
  }

  async #import() {
    const [file] = this.file.files;
    this.file.value = ""; // so that the same file can be chosen again
    if (!file) return;
    try {
      const conversations = readArchive(await file.text());
      this.session.add(conversations);
      this.message.textContent = `${conversations.length} imported.`;
    } catch (error) {
      this.message.textContent = `${file.name} was not imported. ${error.message}`;
    }
  }
}
