// assistant-ui with its own thread list, kept by everyword.

import { useEffect, useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePrimitive,
  ThreadListItemPrimitive,
  ThreadListPrimitive,
  ThreadPrimitive,
  useAui,
  useAuiState,
  useRemoteThreadListRuntime,
} from "@assistant-ui/react";
import { markRead, watchConversations, whoAmI } from "./conversations.js";
import { Approval, DeleteDialog, Header, IconButton, Status, TitleField, Unread, When } from "./parts.jsx";
import { useErrors, useIsVisible, useOpenName } from "./parts.jsx";
import { threadListAdapter } from "./thread-list-adapter.js";
import { useThread } from "./use-thread.js";

// Reloads assistant-ui's list when everyword's changes, one reload at a time.
function useLiveList(runtime, adapter, onRemoved) {
  const [isLive, setLive] = useState(true);
  useEffect(() => {
    let reloading = null;
    let isStale = false;
    function reload() {
      isStale = true;
      reloading ??= (async () => {
        while (isStale) {
          isStale = false;
          await runtime.threads.reload();
        }
        reloading = null;
      })();
      return reloading;
    }
    let wasAway = false;
    function onEvent(event) {
      if (event.type === "list" && wasAway) adapter.connected();
      if (event.type === "list") wasAway = false;
      if (event.type === "removed") onRemoved(event);
      reload();
    }
    function onLink(isLive) {
      wasAway ||= !isLive;
      setLive(isLive);
    }
    return watchConversations(onEvent, onLink);
  }, [runtime, adapter]);
  return isLive;
}

// The open thread is in the URL.
function useThreadInUrl(runtime, name) {
  useEffect(() => {
    if (name === null) runtime.threads.switchToNewThread();
    else if (runtime.threads.mainItem.getState().remoteId !== name)
      runtime.threads.switchToThread(name, { unarchive: false }).catch(() => runtime.threads.switchToNewThread());
  }, [runtime, name]);
}

function Row({ actions }) {
  const aui = useAui();
  const { remoteId, title, status, custom } = useAuiState((state) => state.threadListItem);
  const isOpen = useAuiState((state) => state.threads.mainThreadId === state.threadListItem.id);
  const [isEditing, setEditing] = useState(false);
  async function rename(text) {
    await actions.attempt(() => aui.threadListItem.rename(text ?? ""));
    setEditing(false);
  }
  if (!title && !custom) return null; // its first question is on its way
  return (
    <ThreadListItemPrimitive.Root
      className="item"
      data-name={remoteId}
      data-open={isOpen || undefined}
      data-unread={custom?.unread > 0 || undefined}
    >
      {isEditing ? (
        <TitleField title={title ?? ""} onSave={rename} onCancel={() => setEditing(false)} />
      ) : (
        <button type="button" className="row" onClick={() => actions.open(remoteId)} aria-current={isOpen || undefined}>
          <Status status={custom?.status} />
          <span className="title" dir="auto">
            <ThreadListItemPrimitive.Title fallback="Untitled" />
          </span>
          {custom && <When time={custom.updatedAt} />}
          <span className="preview" dir="auto">{custom?.preview}</span>
          <Unread count={isOpen ? 0 : custom?.unread} />
        </button>
      )}
      <span className="actions">
        <IconButton icon="rename" label="Rename" onClick={() => setEditing(true)} />
        {status === "archived" ? (
          <IconButton
            icon="unarchive"
            label="Unarchive"
            onClick={() => actions.attempt(() => aui.threadListItem.unarchive())}
          />
        ) : (
          <IconButton
            icon="archive"
            label="Archive"
            onClick={() => actions.attempt(() => aui.threadListItem.archive())}
          />
        )}
        <IconButton icon="delete" label="Delete" onClick={() => actions.askToDelete(aui.threadListItem)} />
      </span>
    </ThreadListItemPrimitive.Root>
  );
}

function ThreadList({ user, isLive, isOpening, onOpen }) {
  const [doomed, setDoomed] = useState(null);
  const [error, attempt, forget] = useErrors(isLive);
  const { isLoading, threadIds, archivedThreadIds, hasMore } = useAuiState((state) => state.threads);
  const actions = { attempt, open: onOpen, askToDelete: setDoomed };
  async function remove() {
    setDoomed(null);
    await attempt(() => doomed.delete());
  }
  return (
    <aside>
      <Header user={user} />
      <ThreadListPrimitive.Root>
        <ThreadListPrimitive.New className="main new" onClick={isOpening}>New conversation</ThreadListPrimitive.New>
        {!isLive && <p role="status" className="notice">The server is away. This page tries again by itself.</p>}
        {error && <p role="alert" className="notice" onClick={forget}>{error}</p>}
        <nav aria-label="Conversations">
          {!threadIds.length && <p className="hint">{isLoading ? "Loading …" : "No conversations yet. Begin a new one."}</p>}
          <ThreadListPrimitive.Items>{() => <Row actions={actions} />}</ThreadListPrimitive.Items>
          {archivedThreadIds.length > 0 && (
            <details>
              <summary>Archived ({archivedThreadIds.length}{hasMore ? "+" : ""})</summary>
              <ThreadListPrimitive.Items archived>{() => <Row actions={actions} />}</ThreadListPrimitive.Items>
            </details>
          )}
          {hasMore && <ThreadListPrimitive.LoadMore className="plain more">Load more</ThreadListPrimitive.LoadMore>}
        </nav>
      </ThreadListPrimitive.Root>
      {doomed && (
        <DeleteDialog title={doomed.getState().title ?? "Untitled"} onDelete={remove} onCancel={() => setDoomed(null)} />
      )}
    </aside>
  );
}

function Call({ toolName, args, result, approval, respondToApproval }) {
  if (toolName !== "publish") return null;
  const answer = approval?.approved === false ? "denied" : (approval?.approved || result !== undefined) && "approved";
  return <Approval text={args.text} answer={answer} onAnswer={(approved) => respondToApproval({ approved })} />;
}

const Text = ({ text }) => <span>{text}</span>; // no paragraph: an answer that goes on after a crash has a second part

function Message() {
  const role = useAuiState((state) => state.message.role);
  return (
    <MessagePrimitive.Root className="message" data-role={role} dir="auto">
      <MessagePrimitive.Parts components={{ Text, tools: { Fallback: Call } }} />
    </MessagePrimitive.Root>
  );
}

function Failure({ isLive }) {
  const isRunning = useAuiState((state) => state.thread.isRunning);
  const status = useAuiState((state) => state.thread.messages.at(-1)?.status);
  const hasFailed = useAuiState((state) => state.threadListItem.custom?.status === "failed");
  if (isRunning || !isLive || (!hasFailed && status?.reason !== "error")) return null; // offline, the list says so
  const text = status?.reason === "error" ? status.error?.message ?? status.error : undefined;
  return <p role="alert" className="notice">{typeof text === "string" ? text : "The answer failed. Ask again."}</p>;
}

function Thread({ isLive, onBack }) {
  const { remoteId, title, status, custom } = useAuiState((state) => state.threadListItem);
  const isEmpty = useAuiState((state) => state.thread.messages.length === 0);
  const isVisible = useIsVisible();
  const isRead = !remoteId || !custom?.unread || !isVisible;
  useEffect(() => {
    if (!isRead) markRead({ kind: "chat", name: remoteId }, custom.messages).catch(() => {}); // with the next message
  }, [isRead, custom?.messages]);
  return (
    <section aria-label="Conversation">
      <header>
        <IconButton icon="back" label="Back to the list" className="icon back" onClick={onBack} />
        <h1 dir="auto">{title || (custom ? "Untitled" : "New conversation")}</h1>
        {status === "archived" && <span className="tag">archived</span>}
      </header>
      <ThreadPrimitive.Root className="thread">
        <ThreadPrimitive.Viewport className="messages">
          {isEmpty && <p className="hint">{remoteId ? "Loading …" : "Ask for a story."}</p>}
          <ThreadPrimitive.Messages>{() => <Message />}</ThreadPrimitive.Messages>
        </ThreadPrimitive.Viewport>
        <Failure isLive={isLive} />
        <ComposerPrimitive.Root className="composer">
          <ComposerPrimitive.Input placeholder="Ask for a story" aria-label="Your message" rows={1} autoFocus />
          <ThreadPrimitive.If running={false}>
            <ComposerPrimitive.Send className="main">Send</ComposerPrimitive.Send>
          </ThreadPrimitive.If>
          <ThreadPrimitive.If running>
            <ComposerPrimitive.Cancel className="main">Stop</ComposerPrimitive.Cancel>
          </ThreadPrimitive.If>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </section>
  );
}

function App({ user }) {
  const adapter = useMemo(() => threadListAdapter(user), [user]);
  const [name, open] = useOpenName();
  const [isNew, setNew] = useState(false);
  const runtime = useRemoteThreadListRuntime({
    runtimeHook: useThread,
    adapter,
    onThreadIdChange: (remoteId) => open(remoteId ?? null),
  });
  useThreadInUrl(runtime, name);
  const isLive = useLiveList(runtime, adapter, (event) => {
    if (runtime.threads.mainItem.getState().remoteId === event.name) runtime.threads.switchToNewThread();
  });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <main data-open={name !== null || isNew || undefined}>
        <ThreadList user={user} isLive={isLive} isOpening={() => setNew(true)} onOpen={open} />
        <Thread
          isLive={isLive}
          onBack={() => {
            setNew(false);
            open(null);
          }}
        />
      </main>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("root")).render(<App user={await whoAmI()} />);
