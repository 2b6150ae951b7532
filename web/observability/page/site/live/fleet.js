// What is known of all workers of a cluster: of each what is known of a server, and the newest cancels of all.

import { LiveModel, nameOf } from "./model.js";

const RECEIPTS = 100;

/**
 * Takes in what the control address tells.  Listeners of "frame" hear when something was; its `detail` has the receipts
 * in it.  Listeners of "workers" hear when one came or went, or became silent.
 *
 * workers   by their ids: { model, standing }; the standing is "joined" or "silent", and the model has no state before
 *           its worker has said how it stands
 * receipts  of cancels, the oldest first; each has its `worker`
 */
export class Fleet extends EventTarget {
  constructor() {
    super();
    this.workers = new Map();
    this.former = new Map(); // of the stream before this one
    this.receipts = [];
  }

  /** A stream begins: the first one, or one after a break.  It names all workers that there are. */
  begin() {
    this.former = this.workers;
    this.workers = new Map();
    this.dispatchEvent(new Event("workers"));
  }

  /** Take in an event of the stream, by its name. */
  apply(kind, { worker, standing = "joined", ...frame }) {
    if (standing === "left") this.workers.delete(worker);
    else this.stand(worker, standing);
    if (kind === "worker") {
      this.dispatchEvent(new Event("workers"));
      return;
    }
    for (const receipt of receiptsOf(frame)) receipt.worker = worker;
    this.keep(receiptsOf(frame));
    this.workers.get(worker).model.apply(kind, frame);
    const receipts = frame.events.filter(({ type }) => type === "receipt");
    this.dispatchEvent(new CustomEvent("frame", { detail: { kind, receipts } }));
  }

  stand(worker, standing) {
    const known = this.workers.get(worker);
    if (known?.standing === standing) return;
    const model = known?.model ?? this.former.get(worker)?.model ?? new LiveModel();
    this.workers.set(worker, { model, standing });
    this.dispatchEvent(new Event("workers"));
  }

  keep(receipts) {
    const known = new Set(this.receipts.map(fullName));
    const fresh = receipts.filter((receipt) => !known.has(fullName(receipt)));
    if (!fresh.length) return;
    this.receipts = [...this.receipts, ...fresh].sort((one, other) => one.detected_at - other.detected_at).slice(-RECEIPTS);
  }
}

function receiptsOf({ receipts = [], events }) {
  return [...receipts, ...events.filter(({ type }) => type === "receipt")];
}

function fullName(receipt) {
  return `${receipt.worker}/${nameOf(receipt)}`;
}
