// The page: a tab for each view, the theme, and what all views are given.  Which views there are, the document says: a
// server's are "live chat", "live" where its model has no chat template, and those of a cluster's control address "workers".
//
// A view is a module that exports `mount(element, context)`, which shows it in an empty element and returns a function
// that ends it: streams, timers and listeners included.  `context` is { api, announce, theme }:
//   api       asks the server (shared/api.js)
//   announce  says a sentence to whoever listens to a screen reader
//   theme     what is shown, and who wants to know of a change (shared/theme.js)

import { Announcer } from "./shared/announcer.js";
import { Api } from "./shared/api.js";
import { h } from "./shared/dom.js";
import { KeyDialog } from "./shared/key_dialog.js";
import { reached, SILENT } from "./shared/reached.js";
import { Theme } from "./shared/theme.js";

const OFFERED = document.body.dataset.views.split(" ");
const VIEWS = [
  { name: "live", title: "Live", load: () => import("./live/live.js") },
  { name: "chat", title: "Chat", load: () => import("./chat/chat.js") },
  { name: "workers", title: "Workers", load: () => import("./live/workers.js") },
].filter(({ name }) => OFFERED.includes(name));

const view = document.getElementById("view");
const tabs = document.querySelector(".tabs");
const theme = new Theme(document.getElementById("theme"));
const keys = new KeyDialog(document.body);
const api = new Api(() => keys.ask());
const announcer = new Announcer(document.getElementById("announcer"));
const offers = (name) => OFFERED.includes(name);
const context = { api, theme, offers, announce: (sentence) => announcer.say(sentence) };

let shown = 0; // counts what was asked for: a view that loads late must not replace a later one
let unmount = () => {};
let mounted = null;

const links = VIEWS.map(({ name, title }) => h("a", { href: `#/${name}` }, title));
tabs.append(...links);
tabs.hidden = VIEWS.length < 2;

async function show() {
  const [, named] = location.hash.split("/"); // what follows is the view's own
  const wanted = VIEWS.find(({ name }) => name === named) ?? VIEWS[0];
  const turn = ++shown;
  links.forEach((link, place) => link.setAttribute("aria-current", VIEWS[place] === wanted ? "page" : "false"));
  document.title = `cede: ${wanted.title}`;
  if (wanted === mounted) return;
  const module = await reached(wanted.load(), SILENT).catch(inItsPlace);
  if (turn !== shown) return;
  mounted = wanted;
  unmount();
  view.replaceChildren();
  view.dataset.view = wanted.name;
  unmount = module.mount(view, context);
}

/** In the place of a view that was not loaded before the server was gone. */
function inItsPlace({ message }) {
  const mount = (element) => {
    element.append(h("p", { role: "alert" }, `${message} Load this page again when it runs.`));
    return () => {};
  };
  return { mount };
}

async function nameModel() {
  const response = await api.fetch("v1/models");
  if (response.ok) document.getElementById("served").textContent = (await response.json()).data[0].id;
}

window.addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash says which view is shown
  view.focus();
});
show();
if (offers("live")) nameModel().catch(() => {}); // the views say what is the matter with the server
