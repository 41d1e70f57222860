// A list of conversations in plain React, beside the stock useAgentChat.

import { Suspense, useEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { useAgent } from "agents/react";
import { useAgentChat } from "@cloudflare/ai-chat/react";
import { changeConversation, deleteConversation, getConversation, loadMessages, markRead, newName, whoAmI } from "./conversations.js";
import { Approval, DeleteDialog, Header, IconButton, Status, TitleField, Unread, When } from "./parts.jsx";
import { useErrors, useIsVisible, useOpenName } from "./parts.jsx";
import { useConversations } from "./use-conversations.js";

const KIND = "chat";

function Row({ conversation, isOpen, onOpen, actions }) {
  const [isEditing, setEditing] = useState(false);
  const { name, title, preview, status, unread, updatedAt, archived } = conversation;
  async function rename(text) {
    await actions.change(conversation, { title: text });
    setEditing(false);
  }
  return (
    <li data-name={name} data-open={isOpen || undefined} data-unread={unread > 0 || undefined}>
      {isEditing ? (
        <TitleField title={title} onSave={rename} onCancel={() => setEditing(false)} />
      ) : (
        <button type="button" className="row" aria-current={isOpen || undefined} onClick={() => onOpen(name)}>
          <Status status={status} />
          <span className="title" dir="auto">{title || "Untitled"}</span>
          <When time={updatedAt} />
          <span className="preview" dir="auto">{preview}</span>
          <Unread count={isOpen ? 0 : unread} />
        </button>
      )}
      <span className="actions">
        <IconButton icon="rename" label="Rename" onClick={() => setEditing(true)} />
        <IconButton
          icon={archived ? "unarchive" : "archive"}
          label={archived ? "Unarchive" : "Archive"}
          onClick={() => actions.change(conversation, { archived: !archived })}
        />
        <IconButton icon="delete" label="Delete" onClick={() => actions.askToDelete(conversation)} />
      </span>
    </li>
  );
}

function App({ user }) {
  const list = useConversations();
  const [name, open] = useOpenName();
  const [doomed, setDoomed] = useState(null);
  const [refused, setRefused] = useState(null); // the name of a conversation that is not the user's
  const [error, attempt, forget] = useErrors(list.isLive);
  const isVisible = useIsVisible();
  const made = useRef(new Set()); // the server does not know a conversation before its first question
  const current = list.conversations.find((each) => each.name === name);
  const seen = useRef(null); // the conversation that was listed and open last
  if (current) seen.current = name;
  const unread = list.conversations.reduce((sum, each) => sum + (each.archived ? 0 : each.unread), 0);

  // What is on the screen has been read.
  const isRead = !current?.unread || !isVisible || !list.isLive;
  useEffect(() => {
    if (!isRead) markRead(current, current.messages).catch(() => {}); // tried again with the next message
  }, [isRead, current?.messages]);

  useEffect(() => {
    document.title = unread ? `(${unread}) Conversations` : "Conversations";
  }, [unread]);

  // A link may lead to a conversation that is not on the first pages, or that was deleted.
  const isUnknown = list.isLoaded && name !== null && !current && !made.current.has(name);
  useEffect(() => {
    setRefused(null);
    if (!isUnknown) return;
    getConversation({ kind: KIND, name }).then(list.update, ({ status }) => {
      if (status === 403) setRefused(name);
      if (status === 404 && seen.current === name) open(null); // deleted while this page had no connection
    });
  }, [isUnknown, name]);

  // A conversation that was deleted in another tab is closed here, too.
  useEffect(() => {
    if (name !== null && list.removed === name) open(null);
  }, [list.removed]);

  function begin() {
    const name = newName(user);
    made.current.add(name);
    open(name);
  }
  const actions = {
    change: (conversation, changes) => attempt(async () => list.update(await changeConversation(conversation, changes))),
    askToDelete: setDoomed,
  };
  async function remove() {
    setDoomed(null);
    if (doomed.name === name) open(null);
    await attempt(async () => {
      await deleteConversation(doomed);
      list.remove(doomed);
    });
  }
  const rows = (isArchived) =>
    list.conversations
      .filter((each) => each.archived === isArchived)
      .map((each) => (
        <Row key={each.name} conversation={each} isOpen={each.name === name} onOpen={open} actions={actions} />
      ));
  const archived = rows(true);
  const regular = rows(false);

  return (
    <main data-open={name !== null || undefined}>
      <aside>
        <Header user={user} />
        <button type="button" className="main new" onClick={begin}>New conversation</button>
        {!list.isLive && <p role="status" className="notice">The server is away. This page tries again by itself.</p>}
        {error && <p role="alert" className="notice" onClick={forget}>{error}</p>}
        <nav aria-label="Conversations">
          {!list.isLoaded && <p className="hint">Loading …</p>}
          {list.isLoaded && !regular.length && <p className="hint">No conversations yet. Begin a new one.</p>}
          <ul>{regular}</ul>
          {archived.length > 0 && (
            <details>
              <summary>Archived ({archived.length}{list.loadMore ? "+" : ""})</summary>
              <ul>{archived}</ul>
            </details>
          )}
          {list.loadMore && (
            <button type="button" className="plain more" onClick={() => attempt(list.loadMore)}>Load more</button>
          )}
        </nav>
      </aside>
      <section aria-label="Conversation">
        {name === null ? (
          <p className="hint">Choose a conversation, or begin a new one.</p>
        ) : refused === name ? (
          <p className="hint">This conversation belongs to somebody else. <a href="/page/sidebar.html">Back to yours</a></p>
        ) : (
          <>
            <header>
              <IconButton icon="back" label="Back to the list" className="icon back" onClick={() => open(null)} />
              <h1 dir="auto">{current ? current.title || "Untitled" : "New conversation"}</h1>
              {current?.archived && <span className="tag">archived</span>}
            </header>
            <Suspense fallback={<p className="hint">Loading …</p>}>
              <Chat key={name} name={name} isLive={list.isLive} hasFailed={current?.status === "failed"} />
            </Suspense>
          </>
        )}
      </section>
      {doomed && <DeleteDialog title={doomed.title || "Untitled"} onDelete={remove} onCancel={() => setDoomed(null)} />}
    </main>
  );
}

// The parts, with texts that follow each other as one: an answer that goes on after a crash has a new part.
function joined(parts) {
  const made = [];
  for (const part of parts) {
    if (part.type === "step-start") continue;
    const before = made.at(-1);
    if (part.type === "text" && before?.type === "text") made[made.length - 1] = { ...before, text: before.text + part.text };
    else made.push(part);
  }
  return made;
}

function Part({ part, onAnswer }) {
  if (part.type === "text") return <p dir="auto">{part.text}</p>;
  if (part.type !== "tool-publish" || part.state === "input-streaming") return null;
  const answer = { "output-available": "approved", "output-denied": "denied", "approval-responded": "answered" };
  return <Approval text={part.input.text} answer={answer[part.state]} onAnswer={(yes) => onAnswer(part.approval.id, yes)} />;
}

function Chat({ name, isLive, hasFailed }) {
  const agent = useAgent({ agent: "Chat", name, host: location.host });
  const chat = useAgentChat({ agent, getInitialMessages: loadMessages });
  const [text, setText] = useState("");
  const isBusy = chat.status === "submitted" || chat.status === "streaming" || chat.isServerStreaming;

  function send(event) {
    event.preventDefault();
    if (!text.trim()) return;
    chat.sendMessage({ text });
    setText("");
  }

  return (
    <>
      <div className="messages">
        <ol aria-live="polite">
          {chat.messages.map((message) => (
            <li key={message.id} data-role={message.role}>
              {joined(message.parts).map((part, place) => (
                <Part
                  key={place}
                  part={part}
                  onAnswer={(id, approved) => chat.addToolApprovalResponse({ id, approved })}
                />
              ))}
            </li>
          ))}
        </ol>
      </div>
      {!isBusy && isLive && (chat.error || hasFailed) && (
        <p role="alert" className="notice">{chat.error?.message ?? "The answer failed. Ask again."}</p>
      )}
      <form className="composer" onSubmit={send}>
        <input
          value={text}
          onChange={(event) => setText(event.target.value)}
          placeholder="Ask for a story"
          aria-label="Your message"
          dir="auto"
          autoComplete="off"
          autoFocus
        />
        {isBusy ? (
          <button type="button" className="main" onClick={() => chat.stop()}>Stop</button>
        ) : (
          <button className="main" disabled={!text.trim()}>Send</button>
        )}
      </form>
    </>
  );
}

createRoot(document.getElementById("root")).render(<App user={await whoAmI()} />);
