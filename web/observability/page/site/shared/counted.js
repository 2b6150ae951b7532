// Numbers with their nouns.

/** `1 token`, `2 tokens`; `shown` is the number as it is written. */
export function counted(number, noun, shown = number) {
  return `${shown} ${noun}${number === 1 ? "" : "s"}`;
}
