// How far a request has come, as the feed tells it.

/** Of a request: tokens that were read, those in a second, and when the last step with some ended; null before the first. */
export function progressOf(model, id) {
  const spans = spansOf(model, id).filter(({ phase }) => phase === "prefill");
  if (!spans.length) return null;
  const from = Math.min(...spans.map((span) => span.from));
  const to = Math.max(...spans.map((span) => span.to));
  const tokens = spans.reduce((sum, { rows }) => sum + rows, 0);
  return { tokens, to, rate: tokens / Math.max(1e-3, to - from) };
}

/** The seconds from `now` on until so many tokens are read, if it goes on as it did; negative if they should be. */
export function secondsUntil({ tokens, to, rate }, wanted, now) {
  return (wanted - tokens) / rate - (now - to);
}

/** The phases in which steps were made for a request, from some time on. */
export function phasesOf(model, id, since) {
  const recent = spansOf(model, id).filter(({ to }) => to >= since);
  return new Set(recent.map(({ phase }) => phase));
}

function spansOf(model, id) {
  return model.slots.flatMap(({ spans }) => [...spans].filter((span) => span.id === id));
}
