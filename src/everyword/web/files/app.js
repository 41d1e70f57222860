// The playground page: shows one conversation, and connects all other parts of the page.

import { announce, complain, toast } from "./announcements.js";
import { Approvals } from "./approvals.js";
import { at, setAttribute, setText } from "./dom.js";
import { Composer } from "./composer.js";
import { Conversations, keyOf } from "./conversations.js";
import { confirmed } from "./dialogs.js";
import { endingsOf } from "./endings.js";
import { FeedConversations } from "./feed-conversations.js";
import { showLink, showPresent } from "./header.js";
import { Inbox } from "./inbox.js";
import { Inspector } from "./inspector.js";
import { Log } from "./log-reader.js";
import { LateView } from "./late-client.js";
import { Lists } from "./lists.js";
import { ReconnectingSocket } from "./reconnecting-socket.js";
import { rowsOf, showAside, showRows } from "./messages.js";
import { Panels } from "./panels.js";
import { Scroll } from "./scroll.js";
import { Sidebar, titleOf } from "./sidebar.js";
import { randomId } from "./unconfirmed-frames.js";

const settings = await (await fetch("settings.json")).json();
// What else the address has, a token for instance, goes wherever we ask something.
const passed = new URLSearchParams([...new URLSearchParams(location.search)].filter(([name]) => name !== "agent" && name !== "name")).toString();

let link = null;
let log = null;
let versions = [];
let current = { kind: "", name: "" };
let heard = 0; // frames that were looked at
let inbox = null;
let isSought = false; // whether the conversation was looked up, because no list has it
let read = null; // the last request to record what was read

// -- one conversation ----------------------------------------------------------------------------------------------

function open(kind, name, { isNew = true } = {}) {
  link?.close();
  log?.close();
  current = { kind, name };
  versions = [];
  isSought = false;
  if (isNew) history.pushState(null, "", addressOf(kind, name));
  const path = `${settings.basePath}/${encodeURIComponent(kind)}/${encodeURIComponent(name)}`;
  link = new ReconnectingSocket(path, passed);
  heard = 0;
  log = settings.feed ? new Log(settings.feed, `${kind}/${name}`, passed) : null;
  const opened = link;
  link.addEventListener("change", () => opened === link && changed());
  log?.addEventListener("change", schedule);
  composer.attach(link, path);
  inspector.attach(link, log);
  Object.assign(sidebar, { current, isEmpty: true });
  sidebar.show();
  showSuggestions(kind);
  at("wordless").hidden = !settings.wordless.includes(kind);
  at("composer").hidden = settings.wordless.includes(kind);
  at("messages").replaceChildren();
  at("kind").value = kind;
  panels.closeDrawers();
  scroll.stick();
  schedule();
}

function addressOf(kind, name) {
  const query = new URLSearchParams(passed);
  query.set("agent", kind);
  query.set("name", name);
  return `?${query}`;
}

function changed() {
  const news = link.frames.filter(({ number }) => number > heard);
  heard = link.count;
  log?.wake();
  const isTold = ({ type, done }) => type === "cf_agent_chat_messages" || (type === "cf_agent_use_chat_response" && done);
  if (news.some(({ way, frame }) => way === "in" && frame && isTold(frame))) {
    askForVersions();
  }
  composer.keep();
  schedule();
}

let versionsAsked = false;
async function askForVersions() {
  if (versionsAsked) return;
  versionsAsked = true;
  await new Promise((resolve) => setTimeout(resolve, 60)); // one question for what comes together
  versionsAsked = false;
  const asked = link;
  const found = await asked.chat.call("get_versions").catch(() => []); // an agent without a conversation has none
  if (asked !== link) return;
  versions = found;
  schedule();
}

// -- showing ---------------------------------------------------------------------------------------------------------

let isScheduled = false;
function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  const show = () => { isScheduled = false; render(); };
  if (document.hidden) setTimeout(show, 50); // hidden pages get no frames
  else requestAnimationFrame(show);
}

const acts = {
  isBusy: false,
  render: schedule,
  regenerate: (message) => askAgain(link.chat.messages.findIndex(({ id }) => id === message.id), "regenerate-message"),
  retry: (question) => askAgain(link.chat.messages.findIndex(({ id }) => id === question.id) + 1, "regenerate-message"),
  edit: (message, text) => {
    const place = link.chat.messages.findIndex(({ id }) => id === message.id);
    const files = message.parts.filter(({ type }) => type !== "text");
    const edited = { ...message, parts: [...files, { type: "text", text }] };
    ask([...link.chat.messages.slice(0, place), edited]);
  },
  switchTo: (version) => link.chat.call("switch_version", [version]).catch((error) => complain(error.message)),
};

function askAgain(place, trigger) {
  if (place > 0) ask(link.chat.messages.slice(0, place), { trigger });
}

function ask(messages, options) {
  const request = link.chat.ask(messages, options);
  scroll.stick();
  changed();
  return request;
}

function render() {
  if (!link) return;
  const { chat } = link;
  const isBusy = chat.running.length > 0;
  acts.isBusy = isBusy || link.state !== "live";
  const rows = rowsOf(chat, { ...endingsOf(chat, log), versions, isLive: link.state === "live" });
  showRows(at("messages"), rows, { chat, runs: chat.runs, approvalOf }, acts);
  showAside(at("beside"), chat);
  at("empty").hidden = !chat.hasTranscript || rows.length > 0 || !at("wordless").hidden;
  setAttribute(at("messages"), "aria-busy", String(isBusy));
  at("recovering").hidden = chat.recovering.size === 0 || link.state !== "live";
  showLink(link, isBusy);
  showConversation(rows.length === 0);
  showPresent(chat.present);
  composer.show(isBusy);
  inspector.show();
  scroll.follow();
  announce(link, isBusy);
}

const approvalOf = (toolCallId) => approvals?.of(current, toolCallId);

/** Show what the lists know of this conversation, and let them know what this page shows. */
function showConversation(isEmpty) {
  const { kind, name } = current;
  const row = conversations.get(kind, name);
  const title = row ? titleOf(row) : isEmpty && link.chat.hasTranscript ? "New conversation" : name;
  setText(at("title"), title);
  setText(at("address"), `${kind} / ${name}`);
  document.title = `${title} · everyword`;
  at("bring-back").hidden = !row?.archived;
  if (sidebar.isEmpty !== isEmpty) {
    sidebar.isEmpty = isEmpty;
    sidebar.show();
  }
  if (!conversations.canChange || !conversations.isLoaded.active || document.hidden) return;
  if (!row && !isEmpty && !isSought && link.chat.hasTranscript && link.chat.questions.size === 0) {
    isSought = true;
    conversations.find(kind, name).catch(() => {}); // stored by a release before there were lists
  }
  if (row?.unread > 0 && row.status !== "running" && link.state === "live") markRead(row);
}

function markRead(row) {
  const wanted = `${keyOf(row)} ${row.messages}`;
  if (read === wanted) return; // also when it was refused: a principal that may only watch
  read = wanted;
  conversations.markRead(row).catch(() => {});
}

function showSuggestions(kind) {
  const given = settings.suggestions[kind] ?? [];
  at("suggestions").replaceChildren(
    ...given.map(([question, hint]) => {
      const button = document.createElement("button");
      button.type = "button";
      for (const [tag, text] of [["strong", question], ["span", hint]]) button.append(Object.assign(document.createElement(tag), { textContent: text }));
      button.addEventListener("click", () => composer.say(question));
      return button;
    }),
  );
}

// -- wiring --------------------------------------------------------------------------------------------------------------

const scroll = new Scroll(document.querySelector("main"), at("to-end"));
const inspector = new Inspector();
const panels = new Panels(() => inspector.show());
const composer = new Composer({ ask, changed: schedule });
const sidebar = new Sidebar({ open, complain, tell: (words, act) => toast(words, { act }) }, settings.kinds.length > 1);
let conversations = new FeedConversations(null);
let approvals = null;
if (settings.lists === null) list(new FeedConversations(settings.feed, passed));
else followLists(new Lists(settings.lists, settings.scope, passed));

/** List the conversations of the server, and what waits for a person in them. */
function followLists(lists) {
  const found = new Conversations(lists);
  found.addEventListener("refused", () => list(new FeedConversations(settings.feed, passed)));
  list(found);
  approvals = new Approvals(lists);
  approvals.addEventListener("change", schedule);
  inbox = new Inbox(approvals, { open, titleOf: ({ kind, name }) => titleOf(conversations.get(kind, name) ?? { name: `${kind} / ${name}` }) });
}

function list(found) {
  conversations = found;
  sidebar.attach(found);
  found.addEventListener("change", () => {
    if (found === conversations) schedule();
  });
  found.addEventListener("removed", ({ kind, name }) => {
    if (kind !== current.kind || name !== current.name) return;
    toast("This conversation was deleted, or is no longer in your list.");
    open(kind, randomId(8));
  });
}

/** Times are relative: they are shown anew. */
setInterval(() => {
  sidebar.show();
  inbox?.show();
  schedule();
}, 15_000);

for (const kind of settings.kinds) at("kind").append(new Option(kind, kind));
at("kind-choice").hidden = settings.kinds.length < 2;
at("kind").addEventListener("change", () => open(at("kind").value, randomId(8)));
at("new-chat").addEventListener("click", () => { open(current.kind, randomId(8)); composer.focus(); });
at("cut").addEventListener("click", () => link.cut());
at("show-late").addEventListener("click", () => new LateView(link, log));
at("clear").addEventListener("click", () => clear());
at("bring-back").addEventListener("click", () => sidebar.archive(conversations.get(current.kind, current.name), false));
addEventListener("popstate", () => openAddress());
addEventListener("pagehide", () => link.close());
addEventListener("pageshow", (event) => event.persisted && open(current.kind, current.name, { isNew: false }));
document.addEventListener("visibilitychange", () => { if (!document.hidden) { log?.wake(); schedule(); } });
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || document.querySelector("dialog[open], :popover-open")) return;
  if (event.key === "Escape" && !panels.closeDrawers()) composer.stop();
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    composer.focus();
  }
});

async function clear() {
  const asked = link;
  const text = "Its messages are removed for everybody, and what is being answered is stopped. This cannot be undone.";
  if (!(await confirmed({ title: "Clear this conversation?", text, yes: "Clear" })) || asked !== link) return;
  link.chat.clear();
  changed();
  composer.focus();
}

function openAddress() {
  const query = new URLSearchParams(location.search);
  open(query.get("agent") ?? settings.kinds[0], query.get("name") ?? "main", { isNew: false });
}

openAddress();
