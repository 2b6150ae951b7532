// A streamed answer as events of a turn.

/** @import { TurnEvent } from "./turn.js" */

/**
 * The events that one chunk stands for.
 * @param {any} chunk  an object of the stream
 * @param {number | null} at  when it came, where that is known
 * @param {string | null} id  of the server's event
 * @returns {Generator<TurnEvent>}
 */
export function* chunkEvents(chunk, at, id) {
  if (chunk.error) {
    yield { type: "failed", message: chunk.error.message };
    return;
  }
  const choice = chunk.choices?.[0];
  const delta = choice?.delta ?? {};
  const content = delta.content ?? delta.refusal ?? "";
  const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
  const toolCalls = delta.tool_calls ?? [];
  if (content || reasoning || toolCalls.length) yield { type: "delta", at, id, content, reasoning, toolCalls };
  if (chunk.usage) yield { type: "usage", usage: chunk.usage };
  if (choice?.finish_reason) {
    yield { type: "finished", reason: choice.finish_reason, cancelled: chunk.cede?.cancelled ?? null };
  }
}

/**
 * The events of a whole stream.
 * @param {AsyncIterable<{data: string, id: string | null}>} sent  the server's; read to the end, for to leave is to hang up
 * @param {() => number | null} now
 * @returns {AsyncGenerator<TurnEvent>} the last one is `ended` or `failed`
 */
export async function* streamEvents(sent, now) {
  let over = false;
  for await (const { data, id } of sent) {
    if (over) continue;
    if (data === "[DONE]") {
      over = true;
      yield { type: "ended" };
      continue;
    }
    for (const event of chunkEvents(JSON.parse(data), now(), id)) {
      over ||= event.type === "failed";
      yield event;
    }
  }
  if (!over) yield { type: "failed", message: "The server has ended the stream before the answer was whole." };
}
