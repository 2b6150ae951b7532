// A client that this page plays: it asks for a completion, counts what comes, and hangs up.

import { readEvents } from "../shared/sse.js";

/** One request; `body` is that of a completion, and `id` is known once it is `opened`. */
export class Client {
  constructor(api, body, signal) {
    this.closed = new AbortController();
    signal.addEventListener("abort", () => this.hangUp(), { signal: this.closed.signal });
    this.id = null;
    this.count = 0;
    this.waiting = [];
    this.opened = this.open(api, body);
    this.opened.catch(() => {}); // whoever awaits it is told
  }

  async open(api, body) {
    const options = { method: "POST", body: { ...body, stream: true }, signal: this.closed.signal };
    const response = await api.send("v1/completions", options);
    this.read(response).catch((error) => this.settle(error));
    this.id = response.headers.get("x-request-id");
    return this.id;
  }

  /** Close the connection, as a closed tab does. */
  hangUp() {
    this.closed.abort();
  }

  /** Wait until so many pieces of the answer have come. */
  received(count) {
    return new Promise((resolve, reject) => {
      this.waiting.push({ count, resolve, reject });
      this.settle();
    });
  }

  async read(response) {
    for await (const _ of readEvents(response)) {
      this.count += 1;
      this.settle();
    }
    this.settle(new Error("the answer ended before anybody could hang up"));
  }

  settle(error) {
    this.waiting = this.waiting.filter(({ count, resolve, reject }) => {
      if (this.count >= count) resolve();
      else if (error) reject(error);
      else return true;
      return false;
    });
  }
}

/** How many slots nobody holds. */
export function free(slots) {
  return slots.filter(({ state }) => state === "idle").length;
}
