// Renders Markdown as elements. Text is never read as HTML, and links have only safe addresses.
// While an answer grows, unchanged blocks stay in the document, so that selections and scroll positions survive.

import { inline } from "./markdown-inline.js";
import { copyButton, h } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}>\s?/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** Show `text` in `parent`. */
export function showMarkdown(parent, text) {
  const blocks = blocksOf(text.split("\n"));
  const sources = (parent.sources ??= []);
  let same = 0;
  while (same < blocks.length && same < sources.length && sources[same] === blocks[same].join("\n")) same += 1;
  while (parent.children.length > same) parent.lastElementChild.remove();
  for (const block of blocks.slice(same)) parent.append(element(block));
  parent.sources = blocks.map((block) => block.join("\n"));
}

/** Cut lines into blocks; blank lines belong to none, except inside of code and lists. */
function blocksOf(lines) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const end = at + lengthOf(lines, at);
    blocks.push(lines.slice(at, end));
    at = end;
  }
  return blocks;
}

function lengthOf(lines, at) {
  const fence = FENCE.exec(lines[at]);
  if (fence) {
    const close = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
    const end = lines.findIndex((line, index) => index > at && close.test(line));
    return (end === -1 ? lines.length : end + 1) - at;
  }
  if (HEADING.test(lines[at]) || RULE.test(lines[at])) return 1;
  if (ITEM.test(lines[at])) return listLength(lines, at);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !begins(lines[end], lines[at])) end += 1;
  return end - at;
}

/** Whether a line begins a new block although no blank line is before it. */
function begins(line, first) {
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line)) return true;
  if (QUOTE.test(first) !== QUOTE.test(line)) return QUOTE.test(line);
  return /^\s*(?:[-*+]|1[.)])\s/.test(line) && !line.startsWith("|");
}

function listLength(lines, at) {
  let end = at + 1;
  for (let next = end; next < lines.length; next += 1) {
    const line = lines[next];
    if (!line.trim()) continue;
    const isPart = /^\s{2,}/.test(line) || (ITEM.test(line) && kindOf(line) === kindOf(lines[at]));
    const isLazy = lines[next - 1].trim() && !begins(line, lines[at]);
    if (!isPart && !isLazy) break;
    end = next + 1;
  }
  return end - at;
}

const kindOf = (line) => (/^\s*\d/.test(line) ? "ol" : "ul");

function element(lines) {
  const [first] = lines;
  const fence = FENCE.exec(first);
  if (fence) return code(lines, fence);
  const heading = HEADING.exec(first);
  if (heading) return h(`h${Math.min(6, heading[1].length + 2)}`, {}, inline(heading[2]));
  if (RULE.test(first)) return h("hr");
  if (ITEM.test(first)) return list(lines);
  if (QUOTE.test(first)) {
    const quote = h("blockquote");
    for (const block of blocksOf(lines.map((line) => line.replace(QUOTE, "")))) quote.append(element(block));
    return quote;
  }
  if (lines.length > 1 && first.includes("|") && DIVIDER.test(lines[1])) return table(lines);
  return h("p", {}, inline(lines.map((line) => line.replace(/^\s+/, "")).join("\n")));
}

export function codeBlock(text, language = "") {
  const copy = copyButton(() => text, "Copy the code");
  return h("figure", { className: "code" }, h("figcaption", {}, h("span", {}, language || "text"), copy), h("pre", { tabIndex: 0 }, h("code", {}, text)));
}

function code(lines, [, mark, language]) {
  const isClosed = lines.length > 1 && lines.at(-1).trim().startsWith(mark) && !lines.at(-1).trim().replaceAll(mark[0], "");
  return codeBlock(lines.slice(1, isClosed ? -1 : undefined).join("\n"), language);
}

function list(lines) {
  const kind = kindOf(lines[0]);
  const indent = ITEM.exec(lines[0])[1].length;
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent + 1) items.push([item[3]]);
    else items.at(-1).push(line.replace(/^ {1,4}/, ""));
  }
  const result = h(kind, kind === "ol" ? { start: Number.parseInt(ITEM.exec(lines[0])[2], 10) } : {});
  for (const item of items) {
    const blocks = blocksOf(item);
    const content = blocks.map(element);
    // A tight item is its text; paragraphs are for those that have more of them.
    if (content[0]?.localName === "p" && blocks.filter((block) => element(block).localName === "p").length === 1) {
      content.splice(0, 1, ...content[0].childNodes);
    }
    result.append(h("li", {}, content));
  }
  return result;
}

function table(lines) {
  const sides = cells(lines[1]).map((cell) => (/^:-+:$/.test(cell) ? "center" : /-:$/.test(cell) ? "right" : ""));
  const row = (line, tag) => h("tr", {}, sides.map((side, index) => h(tag, { className: side }, inline(cells(line)[index] ?? ""))));
  const body = h("tbody", {}, lines.slice(2).map((line) => row(line, "td")));
  return h("div", { className: "scrolls", tabIndex: 0 }, h("table", {}, h("thead", {}, row(lines[0], "th")), body));
}

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}
