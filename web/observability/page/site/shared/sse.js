// Reads server-sent events from a response.  `EventSource` could neither send a key nor be told why it failed.

import { BROKEN, reached } from "./reached.js";

/** Takes text in pieces of any size, and returns the events that are whole. */
export class EventParser {
  constructor() {
    this.rest = "";
  }

  push(text) {
    const blocks = (this.rest + text).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = blocks.pop();
    return blocks.map(readBlock).filter((event) => event.data !== "");
  }
}

function readBlock(block) {
  const read = { event: "message", data: [], id: null };
  for (const line of block.split("\n")) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "data") read.data.push(value);
    else if (field === "event" || field === "id") read[field] = value;
  }
  return { ...read, data: read.data.join("\n") };
}

/** The events of a response.  Whoever stops iterating ends the response.  Throws Unreachable where it breaks off. */
export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reached(reader.read(), BROKEN);
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    await reader.cancel().catch(() => {}); // it has failed already, and whoever iterates was told
  }
}
