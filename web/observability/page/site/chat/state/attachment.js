// Text files as a part of a message: each under its name, in a fence.

export const MOST_BYTES = 256 * 1024; // of all that are given at once

/** A file is no text, or too long; the message says which. */
export class AttachmentError extends Error {}

/**
 * The texts of files, as a message has them.
 * @param {File[]} files
 * @returns {Promise<string>}
 * @throws {AttachmentError}
 */
export async function attached(files) {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (bytes > MOST_BYTES) {
    throw new AttachmentError(`Files of ${MOST_BYTES / 1024} KiB can be attached at once, and these have ${Math.ceil(bytes / 1024)}.`);
  }
  return (await Promise.all(files.map(fenced))).join("\n\n");
}

async function fenced(file) {
  const text = readText(await file.arrayBuffer());
  if (text === null) throw new AttachmentError(`${file.name} is no text file.`);
  const [longest] = (text.match(/`{3,}/g) ?? [""]).sort((one, other) => other.length - one.length);
  const fence = "`".repeat(Math.max(3, longest.length + 1));
  const suffix = /\.(\w+)$/.exec(file.name)?.[1] ?? "";
  return `${file.name}\n${fence}${suffix}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}`;
}

/** The text; null where it is none. */
function readText(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}
