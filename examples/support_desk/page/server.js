// What the page asks of the server: requests with texts for people as errors, and lists that stay live.

import { useEffect, useRef, useState } from "react";

const AGAIN = 2000; // milliseconds until the server is tried again
const PAGE_SIZE = 50;

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
  if (!response.ok) throw Object.assign(new Error(sentence(await response.text())), { status: response.status });
  return response.status === 204 ? null : response.json();
}

// "unable to answer; Mia approved this call before" → "Mia approved this call before."
function sentence(text) {
  const why = text.trim().replace(/^unable to [^;]*; /, "");
  return why ? why[0].toUpperCase() + why.slice(1) + (/[.!?]$/.test(why) ? "" : ".") : "That did not work. Try again.";
}

// Loads the messages of a conversation for `useAgentChat`. While the server is away, it tries again: the hook throws the
// error of a request that failed, which would take the whole page down.
export async function loadMessages({ url }) {
  const path = new URL(url);
  path.pathname += "/get-messages";
  for (;;) {
    try {
      const response = await fetch(path);
      if (response.ok) return await response.json();
      if (response.status < 500 && response.status !== 429) return []; // refused; `useConversation` knows why
    } catch {
      // not reached, or lost before the end
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
  }
}

const REFUSED = { 413: "it is too large", 415: "it is not a picture that can be shown" };

// Stores a photo beside the conversation and returns the part of a message that shows it.
export async function upload(name, file) {
  const path = `/agents/support/${encodeURIComponent(name)}/attachments?filename=${encodeURIComponent(file.name)}`;
  const response = await fetch(path, { method: "POST", body: file }).catch(() => null);
  if (!response) throw new Error("The server could not be reached. Try again.");
  if (REFUSED[response.status]) throw new Error(`“${file.name}” was not added: ${REFUSED[response.status]}.`);
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
        if (events.readyState === EventSource.CLOSED) timer = setTimeout(reopen, AGAIN);
      };
    };
    const reopen = () => request("GET", "/session").then((given) => (given.user ? open() : location.reload()), () => (timer = setTimeout(reopen, AGAIN)));
    open();
    return () => {
      events.close();
      clearTimeout(timer);
    };
  }, [path]);
  return isLive;
}

// The conversations of the user, or with scope=all of everybody: `all` is null until they are known, `loadMore` null if
// there are no more, `removed` the name of the one that was deleted last.
export function useConversations(scope) {
  const path = `/agents/conversations?archived=any&limit=${PAGE_SIZE}&scope=${scope}`;
  const [known, setKnown] = useState(null);
  const [cursor, setCursor] = useState(null);
  const [removed, setRemoved] = useState(null);
  const put = (found) => setKnown((before) => new Map([...(before ?? []), ...found.map((each) => [each.name, each])]));
  const isLive = useEvents(path, (change) => {
    if (change.type === "changed") return put([change.conversation]);
    if (change.type === "removed") {
      setKnown((before) => new Map([...before].filter(([name]) => name !== change.name)));
      return setRemoved(change.name);
    }
    setKnown(new Map(change.conversations.map((each) => [each.name, each])));
    setCursor(change.cursor);
  });
  async function loadMore() {
    const page = await request("GET", `${path}&cursor=${encodeURIComponent(cursor)}`);
    put(page.conversations);
    setCursor(page.cursor);
  }
  const all = known && [...known.values()].sort((a, b) => b.updatedAt - a.updatedAt);
  return { all, isLive, removed, put, loadMore: cursor && loadMore };
}

// The open conversation; one that is on no page that was loaded is asked for. `isKnown` once it was found, `problem` if the
// server refused it (403) or does not have it (404).
export function useConversation(name, { all, isLive, put }, isNew) {
  const [problem, setProblem] = useState(null);
  const seen = useRef(null); // the name that was found last: a list that is loaded again may lack it for a moment
  const entry = all?.find((each) => each.name === name);
  if (entry || isNew) seen.current = name;
  const isAsked = isLive && name !== null && all !== null && !entry && !isNew;
  useEffect(() => {
    setProblem(null);
    if (!isAsked) return;
    let isCurrent = true;
    request("GET", conversationPath({ kind: "support", name })).then(
      (found) => isCurrent && put([found]),
      (refused) => isCurrent && setProblem(refused),
    );
    return () => (isCurrent = false);
  }, [name, isAsked]);
  return { entry, problem: isAsked ? problem : null, isKnown: name !== null && seen.current === name };
}

// The calls that wait for staff, over all conversations: null until they are known.
export function useInbox() {
  const [waiting, setWaiting] = useState(null);
  useEvents("/agents/approvals?scope=all&limit=200", (page) => setWaiting(page.approvals));
  return waiting;
}

// The calls of one conversation that wait. Customers ask for their own only: others' may fill the first pages.
export async function findApprovals({ name }, scope) {
  const found = [];
  let cursor = "";
  do {
    const page = await request("GET", `/agents/approvals?scope=${scope}&limit=200${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    found.push(...page.approvals.filter((each) => each.name === name));
    cursor = page.cursor;
  } while (cursor);
  return found;
}
