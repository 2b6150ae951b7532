// Conversations as a file.  What is read is checked field by field, and only fields that are known are taken: a file may
// come from anybody.

/** @import { Conversation } from "./conversation.js" */
/** @import { Turn } from "./turn.js" */

import { DEFAULTS } from "./settings.js";

export const FORMAT = "cede-conversations";
export const VERSION = 1;

/** A file is no archive of conversations; the message says where. */
export class ArchiveError extends Error {}

/** @param {Conversation[]} conversations @returns {string} */
export function writeArchive(conversations) {
  return `${JSON.stringify({ format: FORMAT, version: VERSION, conversations }, null, 2)}\n`;
}

/**
 * @param {string} text
 * @returns {Conversation[]}
 * @throws {ArchiveError}
 */
export function readArchive(text) {
  let archive;
  try {
    archive = JSON.parse(text);
  } catch (error) {
    throw new ArchiveError(`It is no JSON: ${error.message}`);
  }
  if (archive?.format !== FORMAT) throw new ArchiveError(`Its 'format' is not '${FORMAT}'.`);
  if (archive.version !== VERSION) throw new ArchiveError(`Version ${archive.version} is not known here.`);
  return list(readConversation)(archive.conversations, "conversations");
}

// --- checks: each takes a value and its place, and returns what is taken of it ------------------------------------------

function expect(holds, place, what) {
  if (!holds) throw new ArchiveError(`${place} has to be ${what}.`);
}

const string = (value, place) => (expect(typeof value === "string", place, "a text"), value);
const number = (value, place) => (expect(Number.isFinite(value), place, "a number"), value);
const optional = (check) => (value, place) => (value == null ? null : check(value, place));
const oneOf = (...values) => (value, place) => {
  expect(values.includes(value), place, `one of ${values.join(", ")}`);
  return value;
};

function list(check) {
  return (value, place) => {
    expect(Array.isArray(value), place, "a list");
    return value.map((item, index) => check(item, `${place}[${index}]`));
  };
}

function record(checks) {
  return (value, place) => {
    expect(typeof value === "object" && value !== null && !Array.isArray(value), place, "an object");
    return Object.fromEntries(
      Object.entries(checks).map(([name, check]) => [name, check(value[name], `${place}.${name}`)]),
    );
  };
}

const toolCall = record({ id: string, name: string, arguments: string });
const figures = record({
  sent: number,
  first: optional(number),
  last: optional(number),
  promptTokens: optional(number),
  cachedTokens: optional(number),
  completionTokens: optional(number),
  reasoningTokens: optional(number),
});
const receipt = record({
  request_id: string,
  index: number,
  reason: string,
  phase: string,
  detected_at: number,
  last_kernel_at: optional(number),
  slot_freed_at: optional(number),
  prompt_tokens: number,
  cached_tokens: number,
  computed_tokens: number,
  kept_tokens: number,
  wasted_tokens: number,
  layers_after_cancel: number,
});
const turn = record({
  id: string,
  parent: optional(string),
  role: oneOf("user", "assistant", "tool"),
  created: number,
  status: oneOf("waiting", "streaming", "whole", "cancelled", "failed"),
  content: string,
  reasoning: string,
  toolCalls: list(toolCall),
  toolCallId: optional(string),
  format: oneOf("text", "json"),
  model: optional(string),
  requestId: optional(string),
  lastEvent: optional(string),
  finish: optional(string),
  error: optional(string),
  figures: optional(figures),
  receipts: list(receipt),
});
const settings = record(Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, string])));

/** @param {unknown} value @param {string} place @returns {Conversation} */
function readConversation(value, place) {
  const turns = (found, where) => {
    expect(typeof found === "object" && found !== null, where, "an object");
    return Object.fromEntries(Object.entries(found).map(([id, item]) => [id, turn(item, `${where}.${id}`)]));
  };
  const checks = {
    id: string, title: string, created: number, changed: number, settings, turns, leaf: optional(string),
  };
  const conversation = record(checks)(value, place);
  checkTree(conversation, place);
  return conversation;
}

/** Each turn follows one that was made before it, so a path comes to its beginning. */
function checkTree(conversation, place) {
  const seen = new Set();
  for (const [id, { id: named, parent }] of Object.entries(conversation.turns)) {
    expect(named === id, `${place}.turns.${id}.id`, `'${id}'`);
    expect(parent === null || seen.has(parent), `${place}.turns.${id}.parent`, "a turn before it");
    seen.add(id);
  }
  const { leaf } = conversation;
  expect(leaf === null ? seen.size === 0 : seen.has(leaf), `${place}.leaf`, "one of its turns");
}
