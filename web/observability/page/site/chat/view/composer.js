// Where one writes what is sent.

/** @import { ChatSession } from "../state/session.js" */

import { h, setText } from "../../shared/dom.js";
import { attached, AttachmentError } from "../state/attachment.js";
import { fitHeight, sends } from "./editor.js";

export class Composer {
  /** @param {{send: (text: string) => void, stop: () => void}} actions */
  constructor({ send, stop }) {
    this.area = h("textarea", {
      rows: "1",
      placeholder: "Write a message",
      "aria-label": "Message",
      oninput: () => fitHeight(this.area),
      onkeydown: (event) => {
        if (!sends(event)) return;
        event.preventDefault();
        submit();
      },
    });
    this.files = h("input", {
      type: "file", multiple: true, hidden: true, "aria-label": "Files to attach",
      onchange: () => this.attach([...this.files.files]),
    });
    this.add = h("button", {
      type: "button", "aria-label": "Attach text files", title: "Attach text files", onclick: () => this.files.click(),
    }, "+");
    this.button = h("button", { class: "primary" }, "Send");
    this.stop = h("button", { type: "button", class: "stop", hidden: true, onclick: stop }, "Stop");
    this.fault = h("p", { class: "fault", role: "alert" });
    const submit = () => {
      if (!this.busy && this.area.value.trim()) send(this.area.value);
    };
    this.element = h(
      "form",
      { class: "composer", onsubmit: (event) => { event.preventDefault(); submit(); } },
      this.fault,
      h("div", { class: "row" }, this.add, this.files, this.area, this.button, this.stop),
    );
  }

  /** @param {ChatSession} session */
  update(session) {
    this.busy = session.busy;
    const stopHadFocus = document.activeElement === this.stop;
    this.button.hidden = session.busy;
    this.stop.hidden = !session.busy;
    if (stopHadFocus && !session.busy) this.area.focus(); // a button that goes away would take the focus with it
    if (session.fault) this.complain(session.fault);
  }

  /** Put the texts of files behind what was written. @param {File[]} files */
  async attach(files) {
    this.files.value = ""; // so that the same can be chosen again
    try {
      const text = await attached(files);
      this.area.value = `${this.area.value}${this.area.value && "\n\n"}${text}\n\n`;
      this.complain("");
    } catch (error) {
      if (!(error instanceof AttachmentError)) throw error;
      this.complain(error.message);
    }
    fitHeight(this.area);
    this.area.focus();
  }

  /** What was written was sent. */
  clear() {
    this.area.value = "";
    fitHeight(this.area);
    this.complain("");
  }

  /** @param {string} message  why nothing was sent; empty if nothing is wrong */
  complain(message) {
    setText(this.fault, message);
  }

  focus() {
    this.area.focus();
  }
}
