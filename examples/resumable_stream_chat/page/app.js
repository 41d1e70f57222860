// The page: a socket, the agent's state, and the streams that the state and the frames speak of.

import { Stream } from "./stream.js";

const name = new URLSearchParams(location.search).get("name") ?? "harbour";
const $ = (id) => document.getElementById(id);

let socket = null;
let pause = 250;
let state = { messages: [], activeStreamId: null };
let failed = null; // the newest stream, if it failed
const streams = new Map();
const calls = new Map();
let serial = 0;

// -- the line ---------------------------------------------------------------------------------------------------

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/agents/stream-chat/${encodeURIComponent(name)}`);
  socket.onopen = () => {
    pause = 250;
    showLink("connected");
    catchUp();
  };
  socket.onmessage = (event) => received(JSON.parse(event.data));
  socket.onclose = () => {
    for (const call of calls.values()) call.reject(new Error("The line was cut."));
    calls.clear();
    showLink("away");
    setTimeout(connect, pause);
    pause = Math.min(pause * 1.6, 4000);
  };
}

function call(method, ...args) {
  return new Promise((resolve, reject) => {
    if (socket?.readyState !== WebSocket.OPEN) return reject(new Error("The server is away. Try again in a moment."));
    const id = `c${++serial}`;
    calls.set(id, { resolve, reject });
    socket.send(JSON.stringify({ type: "rpc", id, method, args }));
  });
}

function received(frame) {
  if (frame.type === "cf_agent_state") {
    const before = state.activeStreamId;
    state = frame.state;
    if (state.activeStreamId !== null) failed = null;
    if (state.activeStreamId !== null && state.activeStreamId !== before) follow(state.activeStreamId);
    show();
  } else if (frame.type === "rpc" && calls.has(frame.id)) {
    const { resolve, reject } = calls.get(frame.id);
    calls.delete(frame.id);
    frame.success ? resolve(frame.result) : reject(new Error(frame.error));
  } else if (frame.type.startsWith("rsm_stream_")) {
    const stream = streamOf(frame.streamId);
    stream.frame(frame);
    if (stream.needsHistory) follow(frame.streamId);
    if (frame.type === "rsm_stream_end" && frame.status === "error") failed = frame.streamId;
    show();
  }
}

// -- streams ----------------------------------------------------------------------------------------------------

const streamOf = (id) => streams.get(id) ?? streams.set(id, new Stream()).get(id);

// Ask for what was said before this page listened. What came live meanwhile is not said again.
async function follow(id) {
  try {
    const history = await call("get_stream_history", id);
    streamOf(id).history(history);
    show();
    if (history.metadata && streamOf(id).needsHistory) follow(id);
  } catch {
    // the line was cut: the state that comes with the next one names the stream again
  }
}

// After a cut, a stream may have gone on or ended without this page.
async function catchUp() {
  if (state.activeStreamId !== null) await follow(state.activeStreamId);
  try {
    const id = await call("last_failure");
    if (id !== null) await follow(id);
    if (state.activeStreamId === null) failed = id;
    show();
  } catch {
    // asked again when the line is back
  }
}

// -- what is seen -----------------------------------------------------------------------------------------------

function show() {
  const list = $("messages");
  const rows = state.messages.map(({ id, role, content }) => ({ id, role, content, is: "whole" }));
  const running = state.activeStreamId;
  const shown = running ?? failed;
  if (shown !== null) {
    const stream = streamOf(shown);
    if (running !== null || stream.status === "error") {
      rows.push({ id: shown, role: "assistant", content: stream.text, is: running ? "streaming" : "failed", stream });
    }
  }
  const atEnd = innerHeight + scrollY >= document.body.scrollHeight - 80;
  rows.forEach((row, place) => paint(list.children[place] ?? list.appendChild(newRow()), row));
  while (list.children.length > rows.length) list.lastChild.remove();
  $("empty").hidden = rows.length > 0;
  $("clear").hidden = rows.length === 0;
  if (atEnd) scrollTo({ top: document.body.scrollHeight });
}

function newRow() {
  const row = document.createElement("li");
  row.append(document.createElement("p"), document.createElement("small"));
  row.lastChild.setAttribute("role", "alert");
  return row;
}

function paint(row, { role, content, is, stream }) {
  row.className = role;
  row.dataset.is = is;
  const [text, note] = row.children;
  if (text.textContent !== content) text.textContent = content;
  note.textContent = is === "failed" ? stream.error ?? "The answer failed." : "";
  note.hidden = is !== "failed";
}

function showLink(is) {
  $("link").dataset.is = is;
  $("link").textContent = { connected: "connected", away: "away; trying again …" }[is];
}

function complain(error) {
  $("link").textContent = error.message;
}

// -- what a person does -----------------------------------------------------------------------------------------

async function send(content) {
  if (!content.trim()) return;
  $("send").disabled = true;
  try {
    await call("send_message", content);
    $("text").value = "";
    grow();
  } catch (error) {
    complain(error);
  } finally {
    $("send").disabled = false;
    $("text").focus();
  }
}

function grow() {
  $("text").style.height = "auto";
  $("text").style.height = `${Math.min($("text").scrollHeight, 160)}px`;
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send($("text").value);
});
$("text").addEventListener("input", grow);
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send($("text").value);
  }
});
for (const idea of document.querySelectorAll(".idea")) idea.addEventListener("click", () => send(idea.textContent));
$("clear").addEventListener("click", () => call("clear_history").then(() => ((failed = null), show()), complain));

connect();
