// The stylesheet's colours for a canvas, which knows no variables.

const VARIABLES = {
  prefill: "--prefill",
  decode: "--decode",
  draft: "--draft",
  verify: "--verify",
  restored: "--restored",
  resident: "--resident",
  held: "--held",
  queued: "--queued",
  cancel: "--cancel",
  line: "--line",
  soft: "--ink-soft",
  paper: "--raised",
  sunken: "--sunken",
};

/** The colours as they are now, within an element, and the font of figures. */
export function coloursOf(element) {
  const probe = document.createElement("i");
  element.append(probe);
  const style = getComputedStyle(probe);
  const colours = { font: style.getPropertyValue("--mono") };
  for (const [name, variable] of Object.entries(VARIABLES)) {
    probe.style.color = `var(${variable})`;
    colours[name] = style.color;
  }
  probe.remove();
  return colours;
}
