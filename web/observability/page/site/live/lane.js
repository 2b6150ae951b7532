// A lane of the timeline: who is in a slot, or in a place of the queue, and what was done for them.

import { Bounded } from "../shared/bounded.js";

const SPANS = 3000;
const STAYS = 300;
const MARKS = 100;

// What the eye could not tell apart becomes one span: short pieces of the same work that follow one another.
const SHORT = 0.02; // seconds
const GAP = 0.005;
const LONGEST = 0.2;

// Of spans that are too many to be kept, this is: for each such piece of time, how long what was done.
const PIECE = 1; // seconds, at most
const PIECES = 1000;

/**
 * One lane.  Times are seconds on the server's clock.
 *
 * stays  who was there: { id, index, from, to, resident }; `to` is null while they are, and `resident` what they left
 * spans  what was done: { id, phase, from, to, rows, drafts, accepted, steps }
 * pieces  what was done before the oldest span: { id, from, to, rows, steps, seconds }, of which the last is by phase
 * marks  cancels: { id, index, at, receipt }; the receipt is null until it comes
 */
export class Lane {
  constructor(kind, place) {
    this.kind = kind;
    this.place = place;
    this.stays = new Bounded(STAYS);
    this.spans = new Bounded(SPANS);
    this.pieces = new Bounded(PIECES);
    this.marks = new Bounded(MARKS);
  }

  /** Who is there now; undefined for nobody. */
  get stay() {
    const last = this.stays.last;
    return last?.to === null ? last : undefined;
  }

  enter(at, id, index) {
    this.leave(at);
    this.stays.push({ id, index, from: at, to: null, resident: 0 });
  }

  leave(at) {
    if (this.stay) this.stay.to = Math.max(at, this.stay.from);
  }

  work(span) {
    const last = this.spans.last;
    if (last && isOne(last, span)) {
      last.to = span.to;
      last.rows += span.rows;
      last.drafts += span.drafts;
      last.steps += 1;
    } else this.sumUp(this.spans.push({ ...span, accepted: 0, steps: 1 }));
  }

  /** Add a span that is kept no longer to the piece of time that it is in. */
  sumUp(span) {
    if (!span) return;
    let piece = this.pieces.last;
    if (!piece || piece.id !== span.id || span.to - piece.from > PIECE) {
      piece = { id: span.id, from: span.from, to: span.to, rows: 0, steps: 0, seconds: {} };
      this.pieces.push(piece);
    }
    piece.to = span.to;
    piece.rows += span.rows;
    piece.steps += span.steps;
    piece.seconds[span.phase] = (piece.seconds[span.phase] ?? 0) + span.to - span.from;
  }

  /** The oldest time of which something is known here. */
  get oldest() {
    return Math.min(...[this.pieces, this.spans, this.stays].map((list) => list.at(0)?.from ?? Infinity));
  }
}

function isOne(last, next) {
  return (
    last.phase === next.phase &&
    last.id === next.id &&
    next.to - next.from < SHORT &&
    next.from - last.to < GAP &&
    next.to - last.from < LONGEST
  );
}
