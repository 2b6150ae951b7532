// What comes over the network, or an error in words: a browser's own ("Failed to fetch", "network error") help nobody.

/** The server is gone, or the way to it. */
export class Unreachable extends Error {}

export const SILENT = "The server does not answer.";
export const BROKEN = "The connection to the server broke off before all had come.";

/** An error's message for who chats, and what to do about it. */
export function inWords(error) {
  return error instanceof Unreachable ? `${error.message} What is here is kept; Retry asks again.` : error.message;
}

/** What a promise of `fetch`, or of a response, gives.  Throws Unreachable with the message where the network fails. */
export async function reached(promise, message) {
  try {
    return await promise;
  } catch (error) {
    throw error instanceof TypeError ? new Unreachable(message, { cause: error }) : error;
  }
}
