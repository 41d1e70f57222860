// What the page asks of the server: requests with texts for people as errors, and lists that stay live.

import { useEffect, useState } from "react";

export async function request(method, path, body) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Error("The server could not be reached. Try again.");
  }
  if (response.status === 401) location.reload(); // the session is over
  if (!response.ok) throw new Error(sentence(await response.text()));
  return response.status === 204 ? null : response.json();
}

// "unable to answer; Mia approved this call before" → "Mia approved this call before."
function sentence(text) {
  const why = text.trim().replace(/^unable to [^;]*; /, "");
  return why ? why[0].toUpperCase() + why.slice(1) + (/[.!?]$/.test(why) ? "" : ".") : "That did not work. Try again.";
}

// Stores a photo beside the conversation and returns the part of a message that shows it.
export async function upload(name, file) {
  const path = `/agents/support/${encodeURIComponent(name)}/attachments?filename=${encodeURIComponent(file.name)}`;
  const response = await fetch(path, { method: "POST", body: file }).catch(() => null);
  if (!response) throw new Error("The server could not be reached. Try again.");
  if (!response.ok) throw new Error(sentence(await response.text()));
  return response.json();
}

export const conversationPath = (each) => `/agents/conversations/${each.kind}/${encodeURIComponent(each.name)}`;

// Follows server-sent events for as long as the component is shown. The browser reconnects by itself, but not after
// an error status, such as that of a server that restarts behind a proxy: then this comes back in a moment.
export function useEvents(path, onEvent) {
  const [isLive, setIsLive] = useState(false);
  useEffect(() => {
    let events, timer;
    const open = () => {
      events = new EventSource(path);
      events.onopen = () => setIsLive(true);
      events.onmessage = (event) => onEvent(JSON.parse(event.data));
      events.onerror = () => {
        setIsLive(false);
        if (events.readyState === EventSource.CLOSED) timer = setTimeout(reopen, 2000);
      };
    };
    const reopen = () => request("GET", "/session").then((given) => (given.user ? open() : location.reload()), () => (timer = setTimeout(reopen, 2000)));
    open();
    return () => {
      events.close();
      clearTimeout(timer);
    };
  }, [path]);
  return isLive;
}

// The conversations of the user, or with scope=all of everybody: null until they are known.
export function useConversations(scope) {
  const [known, setKnown] = useState(null);
  const isLive = useEvents(`/agents/conversations?archived=any&limit=200&scope=${scope}`, (change) => {
    if (change.type === "list") return setKnown(new Map(change.conversations.map((each) => [each.name, each])));
    setKnown((before) => {
      const after = new Map(before);
      if (change.type === "removed") after.delete(change.name);
      else after.set(change.conversation.name, change.conversation);
      return after;
    });
  });
  const sorted = known && [...known.values()].sort((a, b) => b.updatedAt - a.updatedAt);
  return [sorted, isLive];
}

// The calls that wait for staff, over all conversations: null until they are known.
export function useInbox() {
  const [waiting, setWaiting] = useState(null);
  useEvents("/agents/approvals?scope=all&limit=200", (page) => setWaiting(page.approvals));
  return waiting;
}
