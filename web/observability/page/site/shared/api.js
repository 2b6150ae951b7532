// Asks the server that this page came from.

import { Kept } from "./kept.js";
import { BROKEN, reached, SILENT } from "./reached.js";
import { readEvents } from "./sse.js";

const KEPT_AS = "cede-key";

/** An answer that is an error.  `status` is HTTP's; the message, `code` and `param` are the server's. */
export class Refused extends Error {
  constructor(status, { message, code = null, param = null }) {
    super(message);
    Object.assign(this, { status, code, param });
  }
}

/**
 * Requests with the key that the server wants, if it wants one.
 *
 * The key is kept in `sessionStorage`: it ends with the tab.  `askKey` is called on a 401, and returns a promise of a
 * key, or of null where nobody gives one.
 */
export class Api {
  constructor(askKey) {
    this.askKey = askKey;
    this.kept = new Kept("sessionStorage");
  }

  /** The response, whatever its status but 401; options are those of `fetch`.  Throws Unreachable where there is none. */
  async fetch(path, options = {}) {
    for (;;) {
      const key = this.kept.get(KEPT_AS);
      const headers = new Headers({ ...options.headers, ...(key && { authorization: `Bearer ${key}` }) });
      const response = await reached(fetch(path, { ...options, headers, cache: "no-store" }), SILENT);
      if (response.status !== 401) return response;
      if (this.kept.get(KEPT_AS) !== key) continue; // another request has brought one meanwhile
      this.kept.remove(KEPT_AS);
      const given = await this.askKey();
      if (given === null) return response;
      this.kept.set(KEPT_AS, given);
    }
  }

  /** The response to a request that may have a JSON body.  Throws Refused where its status is none of success. */
  async send(path, { method = "GET", body, signal } = {}) {
    const sent = body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const response = await this.fetch(path, { method, signal, ...sent });
    if (!response.ok) throw new Refused(response.status, await errorOf(response));
    return response;
  }

  /** The JSON of an answer. */
  async json(path, options) {
    return reached((await this.send(path, options)).json(), BROKEN);
  }

  /** The events of a stream, as { event, data, id } with the data's text, until it ends or the signal aborts it. */
  async *events(path, options) {
    yield* readEvents(await this.send(path, options));
  }
}

async function errorOf(response) {
  try {
    const { error } = await response.json();
    return error.message ? error : { message: String(error) };
  } catch {
    return { message: `${response.status} ${response.statusText}` };
  }
}
