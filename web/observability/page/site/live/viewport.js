// Which piece of time the timeline shows.

const BEHIND = 0.3; // seconds by which the live edge follows the server, so that what is shown there is known

export const WINDOWS = [5, 15, 60, 300]; // seconds

/** A window of time on the server's clock: it moves along, or stands still while paused. */
export class Viewport {
  constructor() {
    this.seconds = WINDOWS[1];
    this.pausedAt = null; // the end of the window, while it stands still
    this.offset = null; // of the server's clock to this page's
  }

  /** Note the server's time, as it was when a frame was made; `isFirst` of a stream. */
  hear(at, isFirst) {
    const offset = at - performance.now() / 1e3;
    this.offset = isFirst || this.offset === null ? offset : Math.max(this.offset, offset);
  }

  /** The server's time now, as far as this page can tell. */
  get now() {
    return performance.now() / 1e3 + (this.offset ?? 0);
  }

  get isPaused() {
    return this.pausedAt !== null;
  }

  get end() {
    return this.pausedAt ?? this.now - BEHIND;
  }

  get start() {
    return this.end - this.seconds;
  }

  pause() {
    this.pausedAt ??= this.end;
  }

  resume() {
    this.pausedAt = null;
  }

  /** Stand still so many seconds before now. */
  back(seconds) {
    this.pausedAt = this.now - BEHIND - seconds;
  }

  /** Stand still, by so many seconds later or, if negative, earlier, but no later than now. */
  shift(seconds) {
    this.pausedAt = Math.min(this.end + seconds, this.now - BEHIND);
  }
}
