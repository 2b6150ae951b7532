// Says sentences to screen readers, in an `aria-live` region that is there from the start.

const KEPT = 5;

export class Announcer {
  constructor(element) {
    this.element = element;
  }

  say(sentence) {
    const line = document.createElement("p");
    line.textContent = sentence;
    this.element.append(line);
    while (this.element.children.length > KEPT) this.element.firstChild.remove();
  }
}
