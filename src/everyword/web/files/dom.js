// Helpers that build and change elements. Text is always set as text, never as HTML.

export const at = (id) => document.getElementById(id);

/** Make an element: h("button", { className: "quiet", onclick }, "Stop"). What begins with aria- or data- is an attribute. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A handler of clicks that leaves out the second click of a double one: something else may be at its place by then. */
export const onceClicked = (act) => (event) => {
  if (event.detail < 2) act(event);
};

const ICONS = {
  copy: "M9 9h10v10H9zM5 15V5h10",
  again: "M20 11a8 8 0 1 0-.8 4.5M20 5v6h-6",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  check: "M5 13l4 4L19 7",
  close: "M6 6l12 12M18 6L6 18",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  agent: "M8 8h8a3 3 0 0 1 3 3v5a3 3 0 0 1-3 3H8a3 3 0 0 1-3-3v-5a3 3 0 0 1 3-3zM12 8V4M9.5 13v1M14.5 13v1",
};

export function icon(name) {
  const svg = drawn("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" });
  svg.append(drawn("path", { d: ICONS[name] }));
  return svg;
}

/** Make an SVG element with attributes. */
export function drawn(tag, attributes = {}, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  return element;
}

/** A small button that is all icon. */
export function iconButton(name, label, onclick) {
  return h("button", { type: "button", className: "icon", "aria-label": label, title: label, onclick }, icon(name));
}

export function copyButton(text, label = "Copy") {
  const button = iconButton("copy", label, async () => {
    await navigator.clipboard.writeText(text()).catch(() => null);
    button.replaceChildren(icon("check"));
    setTimeout(() => button.replaceChildren(icon("copy")), 1200);
  });
  return button;
}

// -- changing only what has changed ------------------------------------------------------------------------------

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, className) {
  if (element.className !== className) element.className = className;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Make the children of `parent` those of `items`, by key, moving and keeping what is there. */
export function keyed(parent, items, make, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, index) => {
    let child = known.get(item.key);
    if (!child) {
      child = make(item);
      child.dataset.key = item.key;
    }
    known.delete(item.key);
    update?.(child, item);
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
  for (const child of known.values()) child.remove();
}

// -- words for numbers -------------------------------------------------------------------------------------------

export function clock(millis) {
  const time = new Date(millis);
  return `${time.toTimeString().slice(0, 8)}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

export function ago(millis, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - millis) / 1000));
  if (seconds < 5) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function lasted(millis) {
  if (millis < 1000) return `${Math.round(millis)} ms`;
  if (millis < 60_000) return `${(millis / 1000).toFixed(1)} s`;
  return `${Math.floor(millis / 60_000)} min ${Math.round((millis % 60_000) / 1000)} s`;
}

export function bytes(count) {
  if (count < 1000) return `${count} B`;
  return count < 1_000_000 ? `${(count / 1000).toFixed(1)} kB` : `${(count / 1_000_000).toFixed(1)} MB`;
}
