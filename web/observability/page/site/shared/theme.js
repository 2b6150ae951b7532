// Dark or light: as the system has it, or as somebody chose with the button.

import { Kept } from "./kept.js";

const KEPT_AS = "cede-theme";
const CHOICES = ["system", "dark", "light"];

/**
 * What is shown.  `current` is "dark" or "light"; listeners of "change" hear when that is another one.
 *
 * The stylesheets need no class: `color-scheme` decides, by `light-dark()`.
 */
export class Theme extends EventTarget {
  constructor(button) {
    super();
    this.button = button;
    this.system = matchMedia("(prefers-color-scheme: dark)");
    this.kept = new Kept("localStorage");
    this.choice = CHOICES.find((choice) => choice === this.kept.get(KEPT_AS)) ?? "system";
    this.system.addEventListener("change", () => this.apply());
    button.addEventListener("click", () => this.choose(CHOICES[(CHOICES.indexOf(this.choice) + 1) % CHOICES.length]));
    this.apply();
  }

  get current() {
    if (this.choice !== "system") return this.choice;
    return this.system.matches ? "dark" : "light";
  }

  choose(choice) {
    this.choice = choice;
    this.kept.set(KEPT_AS, choice);
    this.apply();
  }

  apply() {
    document.documentElement.dataset.theme = this.choice;
    this.button.textContent = `Theme: ${this.choice}`;
    this.dispatchEvent(new Event("change"));
  }
}
