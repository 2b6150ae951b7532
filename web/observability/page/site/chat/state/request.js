// The body of a request: a conversation's path as messages, and its settings.

/** @import { Conversation } from "./conversation.js" */
/** @import { Turn } from "./turn.js" */

import { bodyOf } from "./settings.js";

/**
 * The body that asks for a turn.
 * @param {Conversation} conversation
 * @param {Turn[]} path  what the model is shown
 * @param {boolean} continues  whether it goes on with the last turn of the path
 * @returns {object}
 * @throws {import("./settings.js").SettingsError}
 */
export function requestBody(conversation, path, continues) {
  const { system } = conversation.settings;
  const body = {
    ...bodyOf(conversation.settings),
    messages: [...(system.trim() ? [{ role: "system", content: system }] : []), ...path.map(messageOf)],
    stream: true,
    // With usage in each chunk the page knows what an answer has cost also when it is stopped.
    stream_options: { include_usage: true, continuous_usage_stats: true },
    // Names the session, so that its own KV is displaced before a neighbour's.
    prompt_cache_key: conversation.id,
  };
  return continues ? { ...body, continue_final_message: true, add_generation_prompt: false } : body;
}

/** @param {Turn} turn @returns {object} a message, as the API has it */
export function messageOf(turn) {
  if (turn.role === "tool") return { role: "tool", tool_call_id: turn.toolCallId, content: turn.content };
  if (turn.role === "user") return { role: "user", content: turn.content };
  const message = { role: "assistant", content: turn.content };
  if (turn.reasoning) message.reasoning_content = turn.reasoning;
  if (turn.toolCalls.length) {
    message.content = turn.content || null;
    message.tool_calls = turn.toolCalls.map((call) => ({
      id: call.id, type: "function", function: { name: call.name, arguments: call.arguments },
    }));
  }
  return message;
}
