// everyword's /conversations: what the page reads, changes and watches. The server decides who may do what.

const PAGE_SIZE = 20;
const address = ({ kind, name }) => `/conversations/${kind}/${encodeURIComponent(name)}`;

async function request(url, method = "GET", body = undefined) {
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  const response = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (response.status === 401) location.assign("/");
  if (!response.ok) {
    const text = (await response.text()).trim() || `The server answered ${response.status}.`;
    throw Object.assign(new Error(text), { status: response.status });
  }
  return response.status === 204 ? null : response.json();
}

// A page of conversations, archived ones too: { conversations, cursor }.
export function listConversations({ cursor, limit = PAGE_SIZE } = {}) {
  const asked = new URLSearchParams({ archived: "any", limit, ...(cursor ? { cursor } : {}) });
  return request(`/conversations?${asked}`);
}

export const getConversation = (at) => request(address(at));
export const changeConversation = (at, changes) => request(address(at), "PATCH", changes);
export const deleteConversation = (at) => request(address(at), "DELETE");
export const markRead = (at, messages) => request(`${address(at)}/read`, "POST", { messages });

// Reads the messages of a conversation; null if the server refuses. While the server is away or busy, it tries again.
export async function storedMessages(path, isOver = () => false) {
  while (!isOver()) {
    try {
      const response = await fetch(path);
      if (response.ok) return await response.json();
      if (response.status < 500 && response.status !== 429) return null;
    } catch {
      // not reached, or lost before the end
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
  return null;
}

// For `useAgentChat`: the hook throws the error of a request that failed, which would take the whole page down.
export async function loadMessages({ url }) {
  const path = new URL(url);
  path.pathname += "/get-messages";
  return (await storedMessages(path)) ?? [];
}

export const whoAmI = () => request("/me");

// Calls `onEvent` with every event: a `list` first and after each reconnect, then `changed` and `removed`.
export function watchConversations(onEvent, onLink = () => {}) {
  let source, timer;
  function open() {
    source = new EventSource(`/conversations?archived=any&limit=${PAGE_SIZE}`);
    source.onopen = () => onLink(true);
    source.onmessage = ({ data }) => onEvent(JSON.parse(data));
    source.onerror = () => {
      onLink(false);
      // The browser reconnects by itself, except after an error status, for example of a proxy.
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(() => whoAmI().then(open, open), 2000);
    };
  }
  open();
  return () => {
    clearTimeout(timer);
    source.close();
  };
}

// The name of a new conversation. It begins with the user's id, as `authorize` demands.
export function newName(user) {
  const random = crypto.getRandomValues(new Uint8Array(12));
  return `${user.id}.${Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
