// Stand-ins for what a chat session stands in: a server that answers as told, a storage, a clock.

import { ChatSession } from "../site/chat/state/session.js";

/** A server's chunk with this delta. */
export const delta = (fields) => ({ choices: [{ delta: fields, finish_reason: null }], usage: null });
export const finish = (reason, rest = {}) => ({ choices: [{ delta: {}, finish_reason: reason }], usage: null, ...rest });
export const usage = (prompt, completion, cached) => ({
  choices: [],
  usage: { prompt_tokens: prompt, completion_tokens: completion, prompt_tokens_details: { cached_tokens: cached } },
});
export const DONE = "[DONE]";

/**
 * Answers each request with the next list of chunks, which are numbered; a function among them is awaited before what
 * follows it.
 */
export class ScriptedApi {
  constructor(...answers) {
    this.answers = answers;
    this.bodies = [];
    this.receipts = [];
    this.asked = [];
  }

  async send(path, { body, signal }) {
    this.asked.push(path);
    this.bodies.push(body);
    const chunks = this.answers.shift();
    if (chunks instanceof Error) throw chunks;
    const encoder = new TextEncoder();
    const stream = new ReadableStream({
      async start(controller) {
        signal.addEventListener("abort", () => controller.error(signal.reason));
        for (const [id, chunk] of chunks.entries()) {
          if (typeof chunk === "function") await chunk();
          else controller.enqueue(encoder.encode(`id: ${id}\ndata: ${chunk === DONE ? DONE : JSON.stringify(chunk)}\n\n`));
        }
        controller.close();
      },
    });
    return { headers: new Headers({ "x-request-id": `request-${this.bodies.length}` }), body: stream };
  }

  async json(path) {
    this.asked.push(path);
    return { data: path.startsWith("v1/receipts") ? this.receipts : [{ id: "a-model" }] };
  }
}

export class MemoryStorage {
  constructor(conversations = []) {
    this.kept = new Map(conversations.map((conversation) => [conversation.id, conversation]));
  }

  async all() { return [...this.kept.values()]; }
  async get(id) { return this.kept.get(id) ?? null; }
  async put(conversation) { this.kept.set(conversation.id, conversation); }
  async remove(id) { this.kept.delete(id); }
  watch(listener) { this.otherTabChanged = listener; }
}

/** A session, and what it stands in. */
export function openSession({ answers = [], storage = new MemoryStorage() } = {}) {
  const api = new ScriptedApi(...answers);
  let time = 1000;
  let ids = 0;
  const session = new ChatSession({
    api, storage, now: () => ++time, newId: () => `id-${++ids}`, pause: () => new Promise(() => {}),
  });
  return { session, api, storage };
}

/** Resolves when the session is in a state that the condition names. */
export function until(session, condition) {
  return new Promise((resolve) => {
    const look = () => condition() && (end(), resolve());
    const end = session.subscribe(look);
    look();
  });
}
