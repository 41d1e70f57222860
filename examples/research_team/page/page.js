// The page of the research team, without a library: what goes over the socket, folded into a conversation and cards.

const find = (selector) => document.querySelector(selector);
const name = new URLSearchParams(location.search).get("name") ?? "demo";
const runs = new Map(); // run id → what is known of the researcher's work
const seen = new Set(); // replays repeat what was told: each number of a run counts once
let messages = [];
let answer = null; // the answer that streams: { request, text, calls }
let socket;

// -- the socket -------------------------------------------------------------------------------------------------------

function connect(delay = 300) {
  socket = new WebSocket(`${location.origin.replace("http", "ws")}/agents/lead/${encodeURIComponent(name)}`);
  socket.onopen = () => show("connected");
  socket.onmessage = (event) => {
    receive(JSON.parse(event.data));
    draw();
  };
  socket.onclose = () => {
    show("away; trying again …");
    setTimeout(() => connect(Math.min(delay * 2, 5000)), delay);
  };
}

const send = (frame) => socket.send(JSON.stringify(frame));

function receive(frame) {
  switch (frame.type) {
    case "cf_agent_chat_messages":
      messages = frame.messages;
      if (answer && messages.at(-1)?.role === "assistant") answer = null;
      break;
    case "cf_agent_stream_resuming":
      answer = { request: frame.id, text: "", calls: [] };
      send({ type: "cf_agent_stream_resume_ack", id: frame.id });
      break;
    case "cf_agent_stream_pending":
      answer ??= { request: frame.id, text: "", calls: [] };
      break;
    case "cf_agent_use_chat_response":
      answered(frame);
      break;
    case "agent-tool-event":
      worked(frame);
      break;
  }
}

function answered(frame) {
  answer ??= { request: frame.id, text: "", calls: [] };
  if (frame.body && !frame.error) stream(answer, JSON.parse(frame.body));
  if (!frame.done) return;
  if (frame.error) answer.text += frame.body;
  const parts = answer.calls.map((id) => ({ type: "tool-researcher", toolCallId: id }));
  if (messages.at(-1)?.role === "user")
    messages = [...messages, { role: "assistant", parts: [...parts, { type: "text", text: answer.text }] }];
  answer = null;
}

function stream(answer, chunk) {
  if (chunk.type === "start") Object.assign(answer, { text: "", calls: [] });
  if (chunk.type === "text-delta") answer.text += chunk.delta;
  if (chunk.type === "tool-input-available" && !answer.calls.includes(chunk.toolCallId)) answer.calls.push(chunk.toolCallId);
}

// -- the researchers --------------------------------------------------------------------------------------------------

function worked({ parentToolCallId, sequence, event }) {
  const key = `${event.runId} ${event.kind} ${sequence}`;
  if (event.kind === "chunk" && seen.has(key)) return;
  seen.add(key);
  const run = runs.get(event.runId) ?? { call: parentToolCallId, title: "", text: "", note: "", fraction: 0 };
  runs.set(event.runId, run);
  switch (event.kind) {
    case "started":
      run.title = JSON.parse(event.inputPreview).angle;
      run.status ??= "working";
      break;
    case "chunk":
      said(run, JSON.parse(event.body));
      break;
    case "finished":
      Object.assign(run, { status: "completed", fraction: 1, note: "" });
      break;
    default:
      Object.assign(run, { status: event.kind, note: event.error ?? event.reason ?? "" });
  }
}

function said(run, chunk) {
  if (chunk.type === "text-delta") run.text += chunk.delta;
  if (chunk.type === "data-agent-progress") Object.assign(run, { fraction: chunk.data.fraction, note: chunk.data.message });
}

// -- the screen -------------------------------------------------------------------------------------------------------

const show = (text) => (find("#link").textContent = text);

function draw() {
  const shown = answer
    ? [...messages, { role: "assistant", parts: answer.calls.map((id) => ({ toolCallId: id })), text: answer.text }]
    : messages;
  find("#messages").replaceChildren(...shown.map(drawMessage));
  find("#send").disabled = Boolean(answer);
  find("#stop").hidden = !answer;
}

function drawMessage(message) {
  const item = document.createElement("li");
  const text = message.text ?? message.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  item.className = message.role;
  if (message.role === "user") {
    item.textContent = text;
    return item;
  }
  const calls = message.parts.map((part) => part.toolCallId).filter(Boolean);
  const cards = document.createElement("div");
  cards.className = "cards";
  cards.append(...calls.flatMap((id) => [...runs.values()].filter((run) => run.call === id).map(drawCard)));
  const report = document.createElement("p");
  report.className = "report";
  report.textContent = text;
  item.append(cards, report);
  return item;
}

function drawCard(run) {
  const card = find("#card").content.firstElementChild.cloneNode(true);
  card.dataset.status = run.status;
  card.querySelector("h3").textContent = run.title;
  card.querySelector(".status").textContent = run.status;
  card.querySelector("progress").value = run.fraction ?? 0;
  card.querySelector(".note").textContent = run.note;
  card.querySelector(".text").textContent = run.text;
  return card;
}

find("#ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = find("#question").value.trim();
  if (!text || answer || socket.readyState !== WebSocket.OPEN) return;
  const asked = { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] };
  const request = crypto.randomUUID();
  messages = [...messages, asked];
  answer = { request, text: "", calls: [] };
  const init = { method: "POST", body: JSON.stringify({ messages }) };
  send({ type: "cf_agent_use_chat_request", id: request, init });
  draw();
});

find("#stop").addEventListener("click", () => {
  if (answer) send({ type: "cf_agent_chat_request_cancel", id: answer.request });
});

connect();
