// The rows of the conversation: questions, answers, their outcomes, and their buttons.

import { copyButton, h, iconButton, keyed, setAttribute, setClass, setText } from "./dom.js";
import { showParts } from "./message-parts.js";
import { showRuns } from "./tool-calls.js";

const ENDINGS = { aborted: "Stopped.", skipped: "Skipped: it was never answered." };

export const textOf = (message) => message.parts.filter(({ type }) => type === "text").map(({ text }) => text).join("");

/**
 * The rows of a conversation, oldest first: {key, message, isStreaming, isWaiting, ending, versions}.
 * `endings` is message id → {outcome, error, detail}, `after` the same by the question of an answer without a word.
 */
export function rowsOf(chat, { endings = new Map(), after = new Map(), versions = [], isLive = true } = {}) {
  const { messages } = chat;
  // Also what was under way when the connection was lost: nobody knows yet that it has ended.
  const streaming = new Set([...chat.streams.keys(), ...chat.awaited].map((request) => chat.answers.get(request)));
  const shown = messages.filter(({ role }) => role !== "system");
  const rows = [];
  shown.forEach((message, index) => {
    const isStreaming = streaming.has(message.id);
    const isWaiting = chat.unaccepted.has(message.id) || (!isLive && index === shown.length - 1 && message.role === "user");
    const place = versions.find(({ messageId }) => messageId === message.id);
    const ending = isStreaming ? null : endings.get(message.id);
    rows.push({ key: `m ${message.id}`, message, isStreaming, isWaiting, ending, place });
    const next = shown[index + 1];
    if (message.role !== "user" || next?.role === "assistant") return;
    const wordless = after.get(message.id) ?? wordlessEnding(chat, message.id);
    const empty = versions.find(({ messageId, afterMessageId }) => messageId === null && afterMessageId === message.id);
    const isUnderWay = [...chat.questions.values()].some(({ id }) => id === message.id) || (!next && chat.running.length > 0);
    const isQueued = rows.some((row) => row.isStreaming); // an earlier answer comes first
    if (isUnderWay) rows.push({ key: `t ${message.id}`, message: null, isStreaming: !isQueued, isQueued });
    else if (wordless) rows.push({ key: `e ${message.id}`, message: null, ending: wordless, question: message, place: empty });
  });
  return rows;
}

function wordlessEnding(chat, question) {
  const newest = [...chat.endings.values()].findLast(({ questions }) => questions.includes(question));
  return newest?.outcome === "error" ? newest : null;
}

/** Show rows in a list. `acts` are what the buttons do; without them there are none. */
export function showRows(list, rows, context, acts = null) {
  keyed(list, rows, () => makeRow(), (item, row) => showRow(item, row, context, acts));
}

function makeRow() {
  const item = h("li", {}, h("div", { className: "parts" }), h("p", { className: "ending", hidden: true }), h("div", { className: "actions" }));
  return item;
}

function showRow(item, row, context, acts) {
  const { message, isStreaming = false, isWaiting = false, ending } = row;
  const role = message?.role ?? "assistant";
  setClass(item, `message ${role}${isStreaming ? " streaming" : ""}${isWaiting ? " waiting" : ""}`);
  setAttribute(item, "aria-label", role === "user" ? "You" : "Agent");
  const [parts, end, actions] = item.children;
  if (item.isEdited) return; // somebody types in it
  const count = message ? showParts(parts, message, { ...context, isStreaming }) : 0;
  if (isStreaming && count === 0) {
    if (parts.firstElementChild?.className !== "text thinking") parts.replaceChildren(h("div", { className: "text thinking" }));
    setAttribute(parts.firstElementChild, "aria-label", "Thinking");
  } else if (count === 0) {
    parts.replaceChildren();
  }
  const text = row.isQueued ? "Waiting for its turn." : endingText(ending);
  end.hidden = !text;
  setText(end, text);
  setClass(end, `ending ${ending?.outcome ?? ""}`);
  showActions(actions, item, row, acts);
}

function endingText(ending) {
  if (!ending) return "";
  if (ending.outcome === "error") return errorText(ending);
  return ENDINGS[ending.outcome] ?? "";
}

/** What clients read, and below it the cause: only the playground of a developer has the log, and the cause in it. */
function errorText({ error, detail }) {
  const text = error ?? "The answer failed.";
  return detail && !detail.endsWith(text) ? `${text}\n${detail}` : text;
}

// -- what can be done with a message -------------------------------------------------------------------------------

function showActions(actions, item, row, acts) {
  const { message, isStreaming, isWaiting, place, question } = row;
  const isIdle = acts && !isStreaming && !isWaiting;
  const stamp = isStreaming ? null : stampOf(message);
  const told = JSON.stringify([isIdle, place, message?.id, message?.role, acts?.isBusy, stamp]);
  if (actions.told === told) {
    actions.row = row;
    return;
  }
  Object.assign(actions, { told, row });
  if (!isIdle) return actions.replaceChildren(...stampElements(stamp));
  const buttons = [];
  if (place) buttons.push(versionSwitch(place, acts));
  if (message) buttons.push(copyButton(() => textOf(actions.row.message)));
  if (message?.role === "user") buttons.push(iconButton("edit", "Edit", () => edit(item, actions.row.message, acts)));
  if (message?.role === "assistant") buttons.push(iconButton("again", "Regenerate", () => acts.regenerate(actions.row.message)));
  if (!message && question) buttons.push(iconButton("again", "Try again", () => acts.retry(question)));
  for (const button of buttons) if (acts.isBusy && button.ariaLabel !== "Copy") button.disabled = true;
  actions.replaceChildren(...buttons, ...stampElements(stamp));
}

// -- who wrote a message, and when: the server's fields -----------------------------------------------------------

function stampOf(message) {
  const { time, author } = message?.metadata?.everyword ?? {};
  return Number.isFinite(time) ? { time, author: author?.name ?? author?.id } : null;
}

function stampElements(stamp) {
  if (!stamp) return [];
  const date = new Date(stamp.time);
  const isToday = date.toDateString() === new Date().toDateString();
  const clock = { hour: "2-digit", minute: "2-digit" };
  const text = isToday ? date.toLocaleTimeString([], clock) : date.toLocaleString([], { day: "numeric", month: "short", ...clock });
  const title = date.toLocaleString();
  return [h("time", { dateTime: date.toISOString(), title }, stamp.author ? `${stamp.author}, ${text}` : text)];
}

function versionSwitch({ versions, shown }, acts) {
  const go = (index) => () => acts.switchTo(versions[index]);
  const back = iconButton("left", "Previous version", go((shown ?? versions.length) - 1));
  const forth = iconButton("right", "Next version", go((shown ?? 0) + 1));
  back.disabled = acts.isBusy || shown === 0;
  forth.disabled = acts.isBusy || shown === null || shown === versions.length - 1;
  const label = h("span", { className: "count" }, shown === null ? `0 of ${versions.length}` : `${shown + 1} of ${versions.length}`);
  return h("span", { className: "versions", role: "group", "aria-label": "Versions" }, back, label, forth);
}

function edit(item, message, acts) {
  const box = h("textarea", { value: textOf(message), rows: 2, "aria-label": "Edit your message" });
  const leave = () => {
    item.isEdited = false;
    form.remove();
    item.classList.remove("edited");
    acts.render();
  };
  const form = h("form", { className: "edit" }, box, h("div", { className: "buttons" }, h("button", { type: "submit", className: "yes" }, "Ask again"), h("button", { type: "button", onclick: leave }, "Cancel")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    leave();
    if (box.value.trim()) acts.edit(message, box.value.trim());
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.stopPropagation(); leave(); }
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
  });
  item.isEdited = true;
  item.classList.add("edited");
  item.append(form);
  box.focus();
}

/** Show what is under way beside the messages: agents that no call has asked for, and passing news. */
export function showAside(parent, chat) {
  const [runs, news] = parent.children;
  showRuns(runs, chat.runs.of(undefined), { chat, isReadOnly: true });
  const items = [...chat.transients].map(([type, { data }]) => ({ key: type, text: `${type.slice(5)}: ${typeof data === "string" ? data : JSON.stringify(data)}` }));
  keyed(news, items, () => h("li"), (element, { text }) => setText(element, text));
}
