// How the server is asked for an answer, so that a reload of the page does not lose it: the request outlives the page for
// a moment, and whoever comes back reads on where they were.

/** @import { Api } from "../../shared/api.js" */
/** @import { Turn } from "./turn.js" */

const COMPLETIONS = "v1/chat/completions";

// What a reload takes; a tab that is closed for good has its answer cancelled so much later.
const COME_BACK = { grace_s: 5, keep_s: 60 };

const pathOf = (requestId) => `v1/requests/${encodeURIComponent(requestId)}`;

/**
 * Ask for an answer; where the server holds no more of them for those who come back, for one that ends with the page.
 * @param {Api} api @param {object} body @param {AbortSignal} signal
 * @returns {Promise<Response>}
 */
export async function ask(api, body, signal) {
  const send = (asked) => api.send(COMPLETIONS, { method: "POST", body: asked, signal });
  return send({ ...body, cede: COME_BACK }).catch((error) => {
    if (error.code === "background_full" || error.param?.startsWith("cede")) return send(body);
    throw error;
  });
}

/**
 * The rest of an answer that was being written when the page was left.
 * @param {Api} api @param {Turn} turn @param {AbortSignal} signal
 * @returns {Promise<Response>}  refused with `request_not_found` where it was not held for so long
 */
export async function comeBack(api, { requestId, lastEvent }, signal) {
  return api.send(`${pathOf(requestId)}/stream?after=${lastEvent ?? -1}`, { signal });
}

/** Cancel a request, which would wait for us otherwise. @param {Api} api @param {string | null | undefined} requestId */
export function end(api, requestId) {
  if (requestId) api.json(pathOf(requestId), { method: "DELETE" }).catch(() => {}); // it has ended, or the server has
}
