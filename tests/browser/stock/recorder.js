// Records what was on the screen and which callbacks were called, because a test looks later.

const seen = {
  statuses: [], // every change
  shrinks: [], // a message that lost text, or went away: {id, from, to}
  screens: [], // the ids and roles of all messages, whenever they change: [[id, role], ...]
  calls: [], // [callback, what it was given]
  states: {}, // per call, every change of its state
  orders: [], // the ids of all messages, every change
  drawn: 0, // when the last render was committed
};
window.seen = seen;

let before = new Map();

export function note(callback, given) {
  seen.calls.push([callback, given]);
}

export function look(chat) {
  seen.drawn = performance.now();
  if (seen.statuses.at(-1) !== chat.status) seen.statuses.push(chat.status);
  const screen = chat.messages.map(({ id, role }) => [id, role]);
  if (JSON.stringify(seen.screens.at(-1)) !== JSON.stringify(screen)) seen.screens.push(screen);
  const now = new Map(chat.messages.map((message) => [message.id, length(message)]));
  for (const [id, from] of before) {
    const to = now.get(id) ?? -1;
    if (to < from) seen.shrinks.push({ id, from, to });
  }
  before = now;
  const order = chat.messages.map((message) => message.id);
  if (JSON.stringify(seen.orders.at(-1)) !== JSON.stringify(order)) seen.orders.push(order);
  for (const message of chat.messages) for (const part of message.parts) if (part.toolCallId) noteState(part);
}

function noteState({ toolCallId, state }) {
  const states = (seen.states[toolCallId] ??= []);
  if (states.at(-1) !== state) states.push(state);
}

function length(message) {
  return message.parts.reduce((sum, part) => sum + (part.type === "text" ? part.text.length : 0), 0);
}
