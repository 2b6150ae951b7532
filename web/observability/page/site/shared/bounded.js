// A list that forgets its oldest entries.

/** At most `capacity` entries, the oldest first; iterable, and none is ever copied. */
export class Bounded {
  constructor(capacity) {
    this.capacity = capacity;
    this.entries = [];
    this.first = 0; // where the oldest is, once the list is full
  }

  get length() {
    return this.entries.length;
  }

  get last() {
    return this.at(this.length - 1);
  }

  /** The entry at a place, counted from the oldest; undefined beyond the end. */
  at(place) {
    if (place < 0 || place >= this.length) return undefined;
    return this.entries[(this.first + place) % this.capacity];
  }

  /** Returns the entry that is forgotten for it; undefined for none. */
  push(entry) {
    if (this.length < this.capacity) {
      this.entries.push(entry);
      return undefined;
    }
    const forgotten = this.entries[this.first];
    this.entries[this.first] = entry;
    this.first = (this.first + 1) % this.capacity;
    return forgotten;
  }

  /** The place of the first entry for which `isLate` is true; entries before it are those for which it is false. */
  search(isLate) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isLate(this.at(middle))) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  *[Symbol.iterator]() {
    for (let place = 0; place < this.length; place += 1) yield this.at(place);
  }
}
