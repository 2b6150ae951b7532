// What a page keeps in the browser, where the browser lets it; else until it is closed.

/** Texts by name, of "localStorage" or "sessionStorage". */
export class Kept {
  constructor(storage) {
    this.memory = new Map();
    this.storage = reachable(storage);
  }

  get(name) {
    return this.storage ? this.storage.getItem(name) : (this.memory.get(name) ?? null);
  }

  set(name, text) {
    if (this.storage) this.storage.setItem(name, text);
    else this.memory.set(name, text);
  }

  remove(name) {
    this.storage?.removeItem(name);
    this.memory.delete(name);
  }
}

function reachable(storage) {
  try {
    return window[storage];
  } catch {
    return null; // whoever blocks cookies blocks this, too
  }
}
