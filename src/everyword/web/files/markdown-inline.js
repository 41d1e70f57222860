// The inline elements of Markdown: emphasis, code, links.

import { h } from "./dom.js";

const WORDS = new RegExp(
  [
    /(?<code>(`+)(?!`)([\s\S]*?[^`])\2(?!`))/,
    /(?<escape>\\[\\`*_{}[\]()#+\-.!|~<>])/,
    /(?<link>!?\[(?<label>(?:\\.|\[[^\]]*\]|[^\][\\])*)\]\((?<href>[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s+"[^"]*")?\))/,
    /(?<auto>https?:\/\/[^\s<>()]+[^\s<>().,;:!?'"*_])/,
    /(?<strong>\*\*(?=\S)([\s\S]*?\S)\*\*(?!\*))/,
    /(?<strong2>(?<![\w_])__(?=\S)([\s\S]*?\S)__(?![\w_]))/,
    /(?<em>\*(?=[^\s*])([^*]*?[^\s*])\*(?!\*))/,
    /(?<em2>(?<![\w_])_(?=[^\s_])([^_]*?[^\s_])_(?![\w_]))/,
    /(?<del>~~(?=\S)([\s\S]*?\S)~~)/,
    /(?<hard>(?: {2,}|\\)\n)/,
  ].map(({ source }) => source).join("|").replaceAll("\\2(?!`)", "\\k<ticks>(?!`)").replace("(`+)(?!`)", "(?<ticks>`+)(?!`)"),
  "g",
);

/** Return the nodes of a text. */
export function inline(text) {
  const nodes = [];
  let done = 0;
  for (const match of text.matchAll(WORDS)) {
    if (match.index > done) nodes.push(text.slice(done, match.index));
    nodes.push(word(match[0], match.groups));
    done = match.index + match[0].length;
  }
  if (done < text.length) nodes.push(text.slice(done));
  return nodes;
}

function word(all, groups) {
  if (groups.code) return h("code", {}, trimmed(all.slice(groups.ticks.length, -groups.ticks.length)));
  if (groups.escape) return all[1];
  if (groups.link) return link(groups.href, inline(groups.label.replaceAll(/\\([[\]])/g, "$1")), all);
  if (groups.auto) return link(all, [all], all);
  if (groups.strong || groups.strong2) return h("strong", {}, inline(all.slice(2, -2)));
  if (groups.em || groups.em2) return h("em", {}, inline(all.slice(1, -1)));
  if (groups.del) return h("del", {}, inline(all.slice(2, -2)));
  return h("br");
}

const trimmed = (text) => (/^ .*[^ ].* $/s.test(text) ? text.slice(1, -1) : text).replaceAll("\n", " ");

/** A link, if it is to somewhere that a click may lead to; else what was written. */
function link(href, label, written) {
  const address = safeAddress(href);
  return address ? h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, label) : written;
}

export function safeAddress(href) {
  try {
    const address = new URL(href);
    return ["http:", "https:", "mailto:"].includes(address.protocol) ? address.href : null;
  } catch {
    return null;
  }
}
