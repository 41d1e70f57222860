// Renders the parts of a message. Each kind of part has a function that creates its block and one that updates it.

import { h, icon, setAttribute, setClass, setText } from "./dom.js";
import { safeAddress } from "./markdown-inline.js";
import { showMarkdown } from "./markdown.js";
import { makeTool, updateTool } from "./tool-calls.js";
import { fractionOf, jsonView, valueView } from "./json-view.js";
import { isTool } from "./fold.js";

const KINDS = {
  text: { make: () => h("div", { className: "text md" }), update: (element, { text }) => showMarkdown(element, text) },
  plain: { make: () => h("div", { className: "text" }), update: (element, { text }) => setText(element, text) },
  reasoning: { make: makeReasoning, update: updateReasoning },
  tool: { make: makeTool, update: updateTool },
  data: { make: makeData, update: updateData },
  file: { make: makeFile },
  sources: { make: makeSources, update: updateSources },
  other: { make: ({ part }) => h("details", { className: "card" }, h("summary", {}, h("span", { className: "name" }, part.type)), jsonView(part)) },
};

/** Show a message's blocks in `parent`. */
export function showParts(parent, message, context) {
  const blocks = blocksOf(message, context.isStreaming);
  blocks.forEach((block, index) => {
    const kind = KINDS[block.kind];
    let element = parent.children[index];
    if (!element || element.blockKind !== block.kind || element.blockKey !== block.key) {
      const made = Object.assign(kind.make(block, context), { blockKind: block.kind, blockKey: block.key });
      if (element) element.replaceWith(made);
      else parent.append(made);
      element = made;
    }
    kind.update?.(element, block, context);
  });
  while (parent.children.length > blocks.length) parent.lastElementChild.remove();
  return blocks.length;
}

/** Neighbouring texts are one: an answer that went on after a crash reads as if nothing had happened. */
function blocksOf({ role, parts }, isStreaming) {
  const blocks = [];
  for (const part of parts) {
    const before = blocks.at(-1);
    if (part.type === "step-start") continue;
    if (part.type === "text" || part.type === "reasoning") {
      const kind = part.type === "text" && role === "user" ? "plain" : part.type;
      if (before?.kind === kind) Object.assign(before, { text: before.text + part.text, isOpen: part.state === "streaming" });
      else if (part.text) blocks.push({ kind, key: "", text: part.text, isOpen: part.state === "streaming" });
    } else if (isTool(part)) {
      blocks.push({ kind: "tool", key: part.toolCallId, part });
    } else if (part.type.startsWith("data-")) {
      blocks.push({ kind: "data", key: `${part.type} ${part.id ?? ""}`, part });
    } else if (part.type === "file" || part.type === "reasoning-file") {
      blocks.push({ kind: "file", key: part.url.slice(0, 200), part });
    } else if (part.type.startsWith("source-")) {
      if (before?.kind === "sources") before.sources.push(part);
      else blocks.push({ kind: "sources", key: "", sources: [part] });
    } else {
      blocks.push({ kind: "other", key: JSON.stringify(part), part });
    }
  }
  for (const block of blocks) if (block.kind === "reasoning") block.isOpen &&= isStreaming;
  return blocks;
}

// -- reasoning -----------------------------------------------------------------------------------------------------

function makeReasoning() {
  const details = h("details", { className: "reasoning" }, h("summary"), h("div", { className: "md" }));
  details.addEventListener("click", () => (details.isChosen = true));
  return details;
}

function updateReasoning(element, { text, isOpen }) {
  setText(element.firstChild, isOpen ? "Thinking" : "Thought");
  setClass(element, isOpen ? "reasoning open" : "reasoning");
  if (!element.isChosen) element.open = isOpen; // who opened or closed it by hand has the last word
  showMarkdown(element.lastChild, text);
}

// -- data ------------------------------------------------------------------------------------------------------------

function makeData({ part }) {
  const bar = h("progress", { max: 1, hidden: true, "aria-label": part.type.slice(5) });
  return h("figure", { className: "card data" }, h("figcaption", {}, h("span", { className: "name" }, part.type.slice(5))), bar, h("div", { className: "value" }));
}

function updateData(element, { part }) {
  const text = JSON.stringify(part.data);
  if (element.shown === text) return;
  element.shown = text;
  const [, bar, value] = element.children;
  const fraction = fractionOf(part.data);
  bar.hidden = fraction === null;
  if (fraction !== null) bar.value = fraction;
  value.replaceChildren(valueView(part.data));
}

// -- files and sources -------------------------------------------------------------------------------------------------

function makeFile({ part }) {
  const { mediaType = "", url, filename } = part;
  const name = filename ?? (mediaType || "file");
  const isHere = /^data:image\/(png|jpeg|gif|webp|avif|svg\+xml)[;,]/.test(url) || (isOwn(url) && mediaType.startsWith("image/"));
  if (isHere) {
    return h("figure", { className: "picture" }, h("img", { src: url, alt: filename ?? "image", loading: "lazy" }), filename && h("figcaption", {}, filename));
  }
  const address = isOwn(url) || url.startsWith("data:") ? url : safeAddress(url);
  const props = address ? { href: address, ...(url.startsWith("data:") ? { download: filename ?? "file" } : { target: "_blank", rel: "noopener noreferrer" }) } : {};
  return h("a", { className: "chip", ...props }, icon("file"), h("span", {}, name), h("small", {}, mediaType));
}

const isOwn = (url) => {
  try {
    return new URL(url, location.href).origin === location.origin;
  } catch {
    return false;
  }
};

function makeSources() {
  return h("div", { className: "sources" }, h("span", { className: "label" }, "Sources"), h("ul"));
}

function updateSources(element, { sources }) {
  const list = element.lastChild;
  setAttribute(list, "aria-label", `${sources.length} sources`);
  for (const source of sources.slice(list.children.length)) list.append(h("li", {}, sourceChip(source)));
  while (list.children.length > sources.length) list.lastChild.remove();
}

function sourceChip({ url, title, filename, mediaType }) {
  const address = url ? safeAddress(url) : null;
  if (!address) return h("span", { className: "chip" }, icon("file"), h("span", {}, title ?? filename ?? "document"), h("small", {}, mediaType ?? ""));
  const place = new URL(address).hostname;
  const props = { className: "chip", href: address, target: "_blank", rel: "noopener noreferrer", title: address };
  return h("a", props, icon("link"), h("span", {}, title ?? place), h("small", {}, title ? place : ""));
}
