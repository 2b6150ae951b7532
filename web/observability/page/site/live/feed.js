// Reads the server's feed, and begins again when it breaks off.

import { Unreachable } from "../shared/reached.js";

const FIRST_DELAY = 500; // milliseconds
const LONGEST_DELAY = 5000;

/**
 * Follow the feed until the signal aborts it.
 *
 * `onFrame(kind, frame)` gets each frame, `onStatus(status, message)` one of "live", "over" (the server ended it),
 * "away" and "locked" (nobody gave the key that it wants), whenever that changes.  Nothing follows "locked".  `onBegin()`
 * is called before the first frame of each stream.
 */
export async function follow(api, signal, onFrame, onStatus, onBegin = () => {}) {
  let delay = FIRST_DELAY;
  while (!signal.aborted) {
    let status = "away";
    let message = "";
    let hasBegun = false;
    try {
      for await (const { event, data } of api.events("v1/events", { signal })) {
        if (event === "end") {
          status = "over";
          continue;
        }
        if (!hasBegun) {
          hasBegun = true;
          delay = FIRST_DELAY;
          onStatus("live", "");
          onBegin();
        }
        onFrame(event, JSON.parse(data));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) return onStatus("locked", error.message);
      if (!(error instanceof Unreachable)) message = error.message; // the status says as much
    }
    if (signal.aborted) return;
    onStatus(status, message);
    await pause(delay, signal);
    delay = Math.min(2 * delay, LONGEST_DELAY);
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
