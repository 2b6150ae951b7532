// Draws the lanes on a canvas.

export const ROW = 30; // pixels of a lane: a line of names, and below it what was done
const NAMES = 12;
const WORK = { top: 13, height: 14 };
const AXIS = 18;
const FONT = 10;
const STEPS = [0.5, 1, 2, 5, 10, 30, 60]; // seconds between two lines of the axis

/** The height of so many lanes, in pixels. */
export function heightOf(lanes) {
  return lanes * ROW + AXIS;
}

/**
 * Draw a piece of time.
 *
 * `lanes` are those that are drawn; `context` is the canvas's, scaled to CSS pixels; `view` has width, start, seconds, now and isPaused; `colours` are by
 * name.
 */
export function paint(context, model, lanes, view, colours) {
  const { width, start, seconds } = view;
  const scale = { x: (at) => ((at - start) / seconds) * width, end: start + seconds, ...view, colours };
  context.clearRect(0, 0, width, heightOf(lanes.length));
  context.font = `${FONT}px ${colours.font}`;
  context.textBaseline = "alphabetic";
  paintGaps(context, model.gaps, lanes.length, scale);
  paintAxis(context, lanes.length, scale);
  lanes.forEach((lane, row) => {
    context.save();
    context.translate(0, row * ROW);
    const names = paintLane(context, lane, scale);
    if (lane.kind === "slot") paintRunning(context, model, lane, scale);
    const taken = paintMarks(context, lane, scale);
    paintNames(context, names, taken, colours);
    context.restore();
  });
}

/** Returns the names for which there is room above who was there. */
function paintLane(context, lane, { x, start, end, now, width, colours }) {
  context.fillStyle = colours.line;
  context.fillRect(0, ROW - 1, width, 1);
  const names = [];
  const from = Math.max(0, lane.stays.search((stay) => (stay.to ?? Infinity) > start) - 1);
  for (let place = from; place < lane.stays.length; place += 1) {
    const stay = lane.stays.at(place);
    if (stay.from > end) break;
    const name = paintStay(context, lane, stay, lane.stays.at(place + 1)?.from ?? now, { x, start, end, now, colours });
    if (name) names.push(name);
  }
  for (let place = lane.pieces.search((piece) => piece.to >= start); place < lane.pieces.length; place += 1) {
    const piece = lane.pieces.at(place);
    if (piece.from > end) break;
    paintPiece(context, piece, x(piece.from), x(piece.to), colours);
  }
  let painted = -1;
  for (let place = lane.spans.search((span) => span.to >= start); place < lane.spans.length; place += 1) {
    const span = lane.spans.at(place);
    if (span.from > end) break;
    painted = paintSpan(context, span, x(span.from), x(span.to), painted, colours);
  }
  return names;
}

/** Who was there, and behind that what they left in the slot.  Returns the name, if there is room for it. */
function paintStay(context, lane, stay, next, { x, start, end, now, colours }) {
  const left = x(Math.max(stay.from, start));
  const right = x(Math.min(stay.to ?? now, end));
  if (right > left) {
    context.fillStyle = lane.kind === "queue" ? colours.queued : colours.held;
    context.fillRect(left, WORK.top, Math.max(1, right - left), WORK.height);
  }
  if (stay.to !== null && stay.resident) {
    context.fillStyle = colours.resident;
    context.fillRect(x(Math.max(stay.to, start)), WORK.top + WORK.height - 4, x(next) - x(stay.to), 4);
  }
  const text = stay.id === null ? "another's" : shortName(stay.id);
  const width = text.length * FONT * 0.62;
  return right - left > width ? { text, left, right: left + width } : null;
}

/** Names where nothing else is: a cancel says more than a name does. */
function paintNames(context, names, taken, colours) {
  context.fillStyle = colours.soft;
  for (const { text, left, right } of names) {
    if (!taken.some((box) => box.left < right && box.right > left)) context.fillText(text, left, NAMES - 2);
  }
}

/** What was done in a piece of time long ago: each phase as high as its share of the work. */
function paintPiece(context, { seconds }, left, right, colours) {
  const phases = Object.entries(seconds);
  const whole = phases.reduce((sum, [, each]) => sum + each, 0);
  let top = WORK.top;
  for (const [phase, each] of phases) {
    const height = WORK.height * (whole ? each / whole : 1 / phases.length);
    context.fillStyle = colours[phase];
    context.fillRect(left, top, Math.max(1, right - left), height);
    top += height;
  }
}

/** Returns where the paint ends: what would lie within the same pixel is left out. */
function paintSpan(context, { phase }, left, right, painted, colours) {
  if (right < painted + 0.5) return painted;
  context.fillStyle = colours[phase];
  const width = Math.max(1, right - left - (right - left > 3 ? 1 : 0)); // a line between two chunks
  context.fillRect(left, WORK.top, width, WORK.height);
  return Math.max(painted, left + width);
}

/** The step that is with the device: how long it will take is not known. */
function paintRunning(context, { running }, lane, { x, end, now, colours }) {
  const part = running?.parts.find(({ slot }) => slot === lane.place);
  if (!part || running.at > end) return;
  context.save();
  context.globalAlpha = 0.55;
  context.fillStyle = colours[part.phase];
  context.fillRect(x(running.at), WORK.top, Math.max(1, x(Math.min(now, end)) - x(running.at)), WORK.height);
  context.restore();
}

/**
 * Cancels: where each landed and, where there is room for it, how long it took until the slot was free.
 *
 * Returns what is taken of the line of names.
 */
function paintMarks(context, { marks }, { x, start, end, width, colours }) {
  const shown = [...marks].filter(({ at }) => at >= start && at <= end).map(({ at, receipt }) => ({ left: x(at), receipt }));
  context.fillStyle = colours.cancel;
  for (const { left } of shown) {
    context.fillRect(left - 1, NAMES - 9, 2, ROW - NAMES + 7);
    context.beginPath();
    context.moveTo(left - 5, 2);
    context.lineTo(left + 5, 2);
    context.lineTo(left, 9);
    context.fill();
  }
  const taken = shown.map(({ left }) => ({ left: left - 6, right: left + 6 }));
  let labelled = 0; // where the label before ends
  shown.forEach(({ left, receipt }, place) => {
    const text = labelOf(receipt);
    const room = context.measureText(text).width + 6;
    const before = Math.max(labelled, shown[place - 1]?.left ?? 0);
    const after = shown[place + 1]?.left ?? width;
    const from = [left + 5, left - 5 - room].find((each) => each >= before && each + room < Math.max(after - 5, left));
    if (from === undefined) return;
    labelled = from + room;
    context.fillStyle = colours.paper;
    context.fillRect(from, 0, room, NAMES);
    context.fillStyle = colours.cancel;
    context.fillText(text, from + 3, NAMES - 2);
    taken.push({ left: from, right: from + room });
  });
  return taken;
}

function labelOf(receipt) {
  if (!receipt) return "…";
  if (receipt.slot_freed_at === null) return "left the queue";
  return `free in ${((receipt.slot_freed_at - receipt.detected_at) * 1e3).toFixed(1)} ms`;
}

/** Times of which nothing is known: the page was not connected, or too slow. */
function paintGaps(context, gaps, lanes, { x, start, end, colours }) {
  context.fillStyle = colours.sunken;
  for (const gap of gaps) {
    if (gap.to < start || gap.from > end) continue;
    context.fillRect(x(gap.from), 0, Math.max(2, x(gap.to) - x(gap.from)), lanes * ROW);
  }
}

/** While time moves on, how long ago it was; while it stands still, the time of the day. */
function paintAxis(context, lanes, { x, start, end, seconds, width, isPaused, colours }) {
  const step = STEPS.find((each) => (each / seconds) * width > 70) ?? STEPS.at(-1);
  const top = lanes * ROW;
  const latest = isPaused ? Math.floor(end / step) * step : end;
  for (let at = latest; at > start; at -= step) {
    const left = x(at);
    context.fillStyle = colours.line;
    context.fillRect(left, 0, 1, top);
    context.fillStyle = colours.soft;
    context.fillRect(left, top, 1, 4);
    const text = isPaused ? timeOfDay(at, step) : ago(end - at);
    const room = context.measureText(text).width;
    if (left + room / 2 < width && left - room / 2 > 0) context.fillText(text, left - room / 2, top + 14);
  }
}

function ago(seconds) {
  return seconds < 60 ? `−${Number(seconds.toFixed(1))} s` : `−${Number((seconds / 60).toFixed(1))} min`;
}

function timeOfDay(at, step) {
  const text = new Date(at * 1e3).toLocaleTimeString("en-GB");
  return step < 1 ? `${text}.${Math.floor((at % 1) * 10)}` : text;
}

/** The end of an id, by which people tell requests apart. */
export function shortName(id) {
  return id.length > 10 ? `…${id.slice(-6)}` : id;
}
