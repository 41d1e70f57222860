// Renders JSON values: lists of records as tables, records as names and values, the rest as JSON.

import { copyButton, h } from "./dom.js";

const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const LONGEST = 20_000;

/** JSON with its colours; what is too long is cut, and says so. */
export function jsonView(value) {
  const text = JSON.stringify(value, null, 2) ?? "undefined";
  const shown = text.length > LONGEST ? text.slice(0, LONGEST) : text;
  const code = h("code");
  let done = 0;
  for (const match of shown.matchAll(TOKENS)) {
    code.append(shown.slice(done, match.index));
    const [all, string, colon, literal] = match;
    const kind = colon ? "key" : string ? "string" : literal ? "literal" : "number";
    code.append(h("span", { className: kind }, colon ? string : all));
    if (colon) code.append(colon);
    done = match.index + all.length;
  }
  code.append(shown.slice(done));
  if (shown !== text) code.append(`\n… and ${text.length - shown.length} more characters`);
  return h("div", { className: "json" }, copyButton(() => text, "Copy the JSON"), h("pre", { tabIndex: 0 }, code));
}

const isFlat = (value) => value === null || typeof value !== "object";
const isRecord = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** A value as it reads best. */
export function valueView(value) {
  if (typeof value === "string") return h("p", { className: "plain" }, value);
  if (isFlat(value)) return h("p", { className: "plain" }, JSON.stringify(value) ?? "nothing");
  if (Array.isArray(value) && value.length > 0 && value.length <= 50 && value.every((each) => isRecord(each) && Object.values(each).every(isFlat))) {
    return tableView(value);
  }
  if (isRecord(value) && Object.keys(value).length > 0 && Object.keys(value).length <= 12 && Object.values(value).every(isFlat)) {
    return h("dl", { className: "record" }, Object.entries(value).map(([name, each]) => [h("dt", {}, name), h("dd", {}, said(each))]));
  }
  return jsonView(value);
}

const said = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function tableView(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const head = h("thead", {}, h("tr", {}, names.map((name) => h("th", {}, name))));
  const cell = (value) => h("td", { className: typeof value === "number" ? "right" : "" }, value === undefined ? "" : said(value));
  const body = h("tbody", {}, rows.map((row) => h("tr", {}, names.map((name) => cell(row[name])))));
  return h("div", { className: "scrolls", tabIndex: 0 }, h("table", {}, head, body));
}

/** How far something is, from 0 to 1, if a value says so in one of the usual ways; else null. */
export function fractionOf(value) {
  if (!isRecord(value)) return null;
  const { fraction, progress, percent, done, total } = value;
  for (const each of [fraction, progress]) if (typeof each === "number" && each >= 0 && each <= 1) return each;
  if (typeof percent === "number") return Math.min(1, percent / 100);
  if (typeof done === "number" && typeof total === "number" && total > 0) return Math.min(1, done / total);
  return null;
}
