// One turn of a conversation, and what a stream's events make of it.  Pure: each function returns a new object, so that
// a view knows by identity what has changed.

/**
 * @typedef {object} ToolCall
 * @property {string} id
 * @property {string} name
 * @property {string} arguments  as the model has written them: JSON, or the beginning of it
 */

/**
 * @typedef {object} Figures
 * @property {number} sent  when the request was sent; this and the other times are milliseconds since the epoch
 * @property {number | null} first  when the first token came
 * @property {number | null} last  when the latest one came
 * @property {number | null} promptTokens
 * @property {number | null} cachedTokens  of the prompt, whose KV was there; known when the answer has ended
 * @property {number | null} completionTokens
 * @property {number | null} reasoningTokens  of these
 */

/**
 * @typedef {"waiting" | "streaming" | "whole" | "cancelled" | "failed"} Status
 *   `waiting` until the first token, `whole` also for what a person wrote
 */

/**
 * @typedef {object} Turn
 * @property {string} id
 * @property {string | null} parent  the turn that this one follows
 * @property {"user" | "assistant" | "tool"} role
 * @property {number} created
 * @property {Status} status
 * @property {string} content
 * @property {string} reasoning
 * @property {ToolCall[]} toolCalls
 * @property {string | null} toolCallId  of a tool's result: which call it answers
 * @property {"text" | "json"} format  what the answer was held to
 * @property {string | null} model
 * @property {string | null} requestId  of the latest request that wrote to it
 * @property {string | null} lastEvent  the number of the latest of that request's events that is in it
 * @property {string | null} finish  as the server has it
 * @property {string | null} error
 * @property {Figures | null} figures  of the latest request
 * @property {object[]} receipts  of that request, if it was cancelled
 */

/**
 * @typedef {{type: "opened", requestId: string | null}
 *   | {type: "delta", at: number | null, id: string | null, content: string, reasoning: string, toolCalls: object[]}
 *   | {type: "usage", usage: object}
 *   | {type: "finished", reason: string, cancelled: string | null}
 *   | {type: "ended"} | {type: "stopped"} | {type: "failed", message: string}
 *   | {type: "receipts", receipts: object[]}} TurnEvent
 */

const LIVE = ["waiting", "streaming"];

/**
 * Make a turn; what is not given is empty.
 * @param {Partial<Turn> & {id: string, role: Turn["role"], created: number}} fields
 * @returns {Turn}
 */
export function makeTurn(fields) {
  return {
    parent: null,
    status: "whole",
    content: "",
    reasoning: "",
    toolCalls: [],
    toolCallId: null,
    format: "text",
    model: null,
    requestId: null,
    lastEvent: null,
    finish: null,
    error: null,
    figures: null,
    receipts: [],
    ...fields,
  };
}

/** @param {Turn} turn @returns {boolean} whether a request is writing to it */
export function isLive(turn) {
  return LIVE.includes(turn.status);
}

/**
 * The turn for which a request is sent; what is in it already stays, and the answer is appended.
 * @param {Turn} turn
 * @param {number} sent
 * @returns {Turn}
 */
export function awaiting(turn, sent) {
  const figures = {
    sent, first: null, last: null, promptTokens: null, cachedTokens: null, completionTokens: null, reasoningTokens: null,
  };
  return { ...turn, status: "waiting", requestId: null, lastEvent: null, finish: null, error: null, receipts: [], figures };
}

/** By the type of an event: what it makes of a live turn. */
const CHANGES = {
  opened: (turn, { requestId }) => ({ ...turn, requestId }),
  delta: (turn, event) => ({
    ...turn,
    status: "streaming",
    lastEvent: event.id,
    content: turn.content + event.content,
    reasoning: turn.reasoning + event.reasoning,
    toolCalls: withPieces(turn.toolCalls, event.toolCalls),
    figures: { ...turn.figures, first: turn.figures.first ?? event.at, last: event.at },
  }),
  usage: (turn, { usage }) => ({ ...turn, figures: withUsage(turn.figures, usage) }),
  // Who is still listening and was cancelled all the same (by an operator, say) has finished with `length`.
  finished: (turn, { reason, cancelled }) => ({ ...turn, finish: cancelled ?? reason, error: null,
    status: cancelled ? "cancelled" : turn.status }),
  ended: (turn) => ({ ...turn, status: "whole" }),
  stopped: (turn) => ({ ...turn, status: "cancelled" }),
  failed: (turn, { message }) => ({ ...turn, status: "failed", error: message }),
};

/**
 * What an event makes of a turn.
 * @param {Turn} turn
 * @param {TurnEvent} event
 * @returns {Turn}
 * @throws {Error} the turn has ended, and nothing but receipts may follow
 */
export function reduceTurn(turn, event) {
  if (event.type === "receipts") return { ...turn, receipts: event.receipts };
  if (isLive(turn)) return CHANGES[event.type](turn, event);
  // A cancel that the server tells of ends the turn before the stream ends: its usage and its end still come.
  if (turn.status === "cancelled" && event.type === "usage") return CHANGES.usage(turn, event);
  if (turn.status === "cancelled" && event.type === "ended") return turn;
  throw new Error(`a turn that is ${turn.status} takes no '${event.type}'`);
}

/** @param {ToolCall[]} calls @param {object[]} pieces of a stream @returns {ToolCall[]} */
function withPieces(calls, pieces) {
  if (!pieces.length) return calls;
  const next = [...calls];
  for (const { index, id, function: called = {} } of pieces) {
    const call = next[index] ?? { id: "", name: "", arguments: "" };
    next[index] = {
      id: id ?? call.id,
      name: call.name + (called.name ?? ""),
      arguments: call.arguments + (called.arguments ?? ""),
    };
  }
  return next;
}

/** @param {Figures} figures @param {object} usage of a chunk @returns {Figures} */
function withUsage(figures, usage) {
  return {
    ...figures,
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? figures.cachedTokens,
    reasoningTokens: usage.completion_tokens_details?.reasoning_tokens ?? figures.reasoningTokens,
  };
}
