// The page: shows a conversation as it is folded, and sends what is typed.

import { Conversation } from "./conversation.js";
import { Link, fresh } from "./link.js";

const at = (id) => document.getElementById(id);
const main = document.querySelector("main");

const settings = await (await fetch("settings.json")).json();
const query = new URLSearchParams(location.search);
const kind = query.get("agent") ?? settings.kinds[0];
const name = query.get("name") ?? "main";

const conversation = new Conversation();
const link = new Link(`${settings.basePath}/${encodeURIComponent(kind)}/${encodeURIComponent(name)}`, conversation);

// -- showing -------------------------------------------------------------------------------------------------

const STATES = { connecting: "connecting", live: "live", away: "server away", refused: "refused" };
const TOOL_STATES = {
  "input-streaming": "preparing", "input-available": "running", "output-available": "done",
  "output-error": "failed", "output-denied": "denied", "approval-requested": "asks you", "approval-responded": "answered",
};
const ENDINGS = { aborted: "Stopped.", skipped: "Skipped." };

let scheduled = false;
function schedule() {
  if (scheduled) return;
  scheduled = true;
  const show = () => { scheduled = false; render(); };
  if (document.hidden) setTimeout(show, 50); // hidden pages get no frames
  else requestAnimationFrame(show);
}

function render() {
  const isAtEnd = main.scrollHeight - main.scrollTop - main.clientHeight < 80;
  const path = conversation.path;
  const rows = path.map((row) => ({ key: `n${row.node}`, ...row }));
  for (const { request, message, refusal } of link.outgoing) {
    rows.push({ key: `o${request}`, message, waiting: !refusal, ending: refusal && { outcome: "error", error: refusal } });
  }
  showRows(rows.filter((row) => row.message?.role !== "system"));
  const isBusy = conversation.running !== null;
  at("empty").hidden = conversation.cursor === null || rows.length > 0;
  at("messages").setAttribute("aria-busy", String(isBusy));
  at("stop").hidden = !isBusy || at("question").value.trim() !== "";
  at("send").hidden = !at("stop").hidden;
  at("send").disabled = at("question").value.trim() === "";
  at("link").dataset.state = link.state;
  at("link").textContent = link.state === "live" && isBusy ? "answering" : STATES[link.state];
  const away = at("away");
  away.hidden = link.state !== "away" && link.state !== "refused";
  if (link.state === "refused") away.textContent = link.reason;
  if (isAtEnd) main.scrollTop = main.scrollHeight;
}

function showRows(rows) {
  const list = at("messages");
  const known = new Map([...list.children].map((item) => [item.dataset.key, item]));
  rows.forEach((row, index) => {
    const item = known.get(row.key) ?? Object.assign(document.createElement("li"), { className: "message" });
    known.delete(row.key);
    item.dataset.key = row.key;
    showMessage(item, row);
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] ?? null);
  });
  for (const item of known.values()) item.remove();
}

function showMessage(item, { message, turn, ending, waiting }) {
  const role = message?.role ?? "assistant";
  const isStreaming = turn !== undefined && turn.status !== "accepted";
  setClass(item, `message ${role}${isStreaming ? " streaming" : ""}${waiting ? " waiting" : ""}`);
  const blocks = blocksOf(message);
  if (turn && blocks.length === 0) blocks.push({ tag: "div", className: "text thinking", text: "" });
  if (ending) {
    const text = ending.outcome === "error" ? ending.error ?? "The answer failed." : ENDINGS[ending.outcome];
    blocks.push({ tag: "p", className: `ending ${ending.outcome}`, text });
  }
  blocks.forEach((block, index) => showBlock(item, block, item.children[index]));
  while (item.children.length > blocks.length) item.lastChild.remove();
}

/** Neighbouring texts are one: an answer that went on after a crash reads as if nothing had happened. */
function blocksOf(message) {
  const blocks = [];
  let before = null;
  for (const part of message?.parts ?? []) {
    if (part.type === "text" || part.type === "reasoning") {
      if (before === part.type) blocks.at(-1).text += part.text;
      else blocks.push({ tag: "div", className: part.type, text: part.text });
    } else if (part.toolCallId) {
      blocks.push({ tag: "details", className: "tool", part });
    }
    before = part.type;
  }
  return blocks.filter((block) => block.text !== "");
}

function showBlock(item, block, there) {
  let element = there;
  if (!element || element.localName !== block.tag) {
    element = document.createElement(block.tag);
    if (there) there.replaceWith(element);
    else item.append(element);
  }
  setClass(element, block.className);
  if (block.part) showTool(element, block.part);
  else if (element.textContent !== block.text) element.textContent = block.text;
}

function showTool(element, part) {
  if (!element.firstChild) element.append(document.createElement("summary"), document.createElement("pre"));
  const [summary, pre] = element.children;
  summary.textContent = part.toolName ?? part.type.replace(/^tool-/, "");
  summary.dataset.state = TOOL_STATES[part.state] ?? part.state;
  const { input, output, errorText } = part;
  const text = JSON.stringify({ input, output, errorText }, null, 2);
  if (pre.textContent !== text) pre.textContent = text;
}

function setClass(element, className) {
  if (element.className !== className) element.className = className;
}

// -- asking ----------------------------------------------------------------------------------------------------

const question = at("question");

function send() {
  const text = question.value.trim();
  if (!text) return;
  question.value = "";
  grow();
  link.send(text);
  main.scrollTop = main.scrollHeight;
}

function grow() {
  question.style.height = "auto";
  question.style.height = `${question.scrollHeight + 2}px`;
  schedule();
}

at("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
question.addEventListener("input", grow);
question.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});
addEventListener("keydown", (event) => { if (event.key === "Escape") link.stop(); });
at("stop").addEventListener("click", () => link.stop());
at("suggestions").addEventListener("click", (event) => {
  const chosen = event.target.closest("button");
  if (!chosen) return;
  link.send(chosen.querySelector("strong").textContent);
  question.focus();
});

const choice = at("kind");
for (const each of settings.kinds) choice.append(new Option(each, each, false, each === kind));
at("kind-choice").hidden = settings.kinds.length < 2;
choice.addEventListener("change", () => { location.search = new URLSearchParams({ agent: choice.value, name }); });
at("new-chat").href = `?${new URLSearchParams({ ...(query.has("agent") && { agent: kind }), name: fresh().slice(0, 8) })}`;

link.addEventListener("change", schedule);
render();
