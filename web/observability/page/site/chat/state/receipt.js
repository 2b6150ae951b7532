// What a cancel has cost: the server's receipts, and how they are told.

import { span } from "../../live/receipts.js";
import { Unreachable } from "../../shared/reached.js";

const MOST_SECONDS = 30; // for the end of a request: a step is in the way, and it may be a long one

/**
 * The receipts of a request.
 * @param {import("../../shared/api.js").Api} api
 * @param {string} requestId
 * @returns {Promise<object[]>} when it has ended; none if it had come to its end before the cancel came, or if the server
 *   is not there to say it
 */
export async function findReceipts(api, requestId) {
  const asked = new URLSearchParams({ request_id: requestId, wait: String(MOST_SECONDS) });
  try {
    return (await api.json(`v1/receipts?${asked}`)).data;
  } catch (error) {
    if (error instanceof Unreachable) return [];
    throw error;
  }
}

/**
 * All that a receipt says, as names and values.
 * @param {object} receipt
 * @returns {[string, string][]}
 */
export function receiptRows(receipt) {
  return [
    ["Reason", receipt.reason],
    ["Phase", receipt.phase],
    ["Detected", new Date(receipt.detected_at * 1e3).toISOString().slice(11, 23)],
    ["Last kernel", sinceDetected(receipt, receipt.last_kernel_at)],
    ["Slot freed", sinceDetected(receipt, receipt.slot_freed_at)],
    ["Layers after the cancel", String(receipt.layers_after_cancel)],
    ["Tokens computed", String(receipt.computed_tokens)],
    ["Tokens kept", String(receipt.kept_tokens)],
    ["Tokens wasted", String(receipt.wasted_tokens)],
    ["Prompt tokens", `${receipt.prompt_tokens}, ${receipt.cached_tokens} of them cached`],
    ["Request", receipt.request_id],
  ];
}

function sinceDetected({ detected_at: detected }, at) {
  if (at === null) return "there was none: it waited in the queue";
  return at < detected ? `${span(at, detected)} before it` : `${span(detected, at)} after it`;
}
