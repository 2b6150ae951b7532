// Makes elements.  Text is always text: nothing is parsed as HTML.

/** An element with attributes and children.  `on...` are listeners; true and false set and leave out an attribute. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

/** Set the text of an element, unless it is that already: a screen reader reads what changes. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** What scrolls by itself when it becomes too high, also by the keyboard; the label is for screen readers. */
export function scroller(label, ...children) {
  return h("div", { class: "scroller", tabindex: 0, role: "group", "aria-label": label }, children);
}
