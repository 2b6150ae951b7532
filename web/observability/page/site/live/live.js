// The live view: what the server does now, and where each cancel lands.

import { follow } from "./feed.js";
import { LiveModel } from "./model.js";
import { connection, Panels } from "./panels.js";
import { announcement } from "./receipts.js";
import { ShowMe } from "./show_me.js";

/** Show it; see app.js. */
export function mount(element, { api, announce, theme, offers }) {
  const ended = new AbortController();
  const { signal } = ended;
  const model = new LiveModel();
  const status = connection();
  const hangUp = (id) => api.json(`v1/requests/${encodeURIComponent(id)}`, { method: "DELETE" }).catch((error) => announce(error.message));
  const panels = new Panels(model, { hangUp, theme, status: status.element, signal });
  element.append(new ShowMe(api, model, panels.timeline, offers("chat"), signal).element, ...panels.elements);
  const tell = ({ detail: { receipts } }) => receipts.length && announce(announcement(receipts));
  model.addEventListener("frame", tell, { signal });
  follow(api, signal, (kind, frame) => model.apply(kind, frame), status.tell);
  return () => ended.abort();
}
