// What both pages show: icons, the status of a conversation, a title that can be edited, and the question before deleting.

import { useEffect, useRef, useState, useSyncExternalStore } from "react";

const STATUSES = { running: "answering", waiting: "waiting for you", failed: "failed" };

export function Status({ status }) {
  const text = STATUSES[status];
  return <span className="dot" data-status={status} role={text && "img"} aria-label={text} title={text} />;
}

export function Unread({ count }) {
  return count > 0 ? <span className="unread" aria-label={`${count} unread`}>{count}</span> : null;
}

export function When({ time }) {
  const then = new Date(time);
  const isToday = then.toDateString() === new Date().toDateString();
  const text = isToday
    ? then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : then.toLocaleDateString([], { day: "numeric", month: "short" });
  return <time dateTime={then.toISOString()}>{text}</time>;
}

const PATHS = {
  rename: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  archive: "M4 5h16v4H4zM6 9v10h12V9M10 13h4",
  unarchive: "M4 5h16v4H4zM6 9v10h12V9M12 18v-6m-2.5 2.5L12 12l2.5 2.5",
  delete: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10 11v6M14 11v6",
  back: "M14 5l-7 7 7 7",
  add: "M12 5v14M5 12h14",
};

export function IconButton({ icon, label, ...rest }) {
  return (
    <button type="button" className="icon" aria-label={label} title={label} {...rest}>
      <svg viewBox="0 0 24 24" aria-hidden="true">
        <path d={PATHS[icon]} />
      </svg>
    </button>
  );
}

// Enter and leaving the field save, Escape does not. An empty title brings the first question back.
export function TitleField({ title, onSave, onCancel }) {
  const field = useRef(null);
  const isOver = useRef(false);
  useEffect(() => {
    field.current.focus();
    field.current.select();
  }, []);
  function end(isSaved) {
    if (isOver.current) return;
    isOver.current = true;
    const text = field.current.value.trim();
    if (isSaved && text !== title) onSave(text || null);
    else onCancel();
  }
  return (
    <input
      ref={field}
      className="title"
      aria-label="Title"
      defaultValue={title}
      maxLength={200}
      onBlur={() => end(true)}
      onKeyDown={(event) => {
        if (event.key === "Enter") end(true);
        if (event.key === "Escape") end(false);
      }}
    />
  );
}

export function DeleteDialog({ title, onDelete, onCancel }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onCancel} aria-labelledby="delete-question">
      <h2 id="delete-question">Delete “{title}”?</h2>
      <p>Its messages are deleted for everyone. This cannot be undone.</p>
      <div className="buttons">
        <button type="button" autoFocus onClick={onCancel}>Cancel</button>
        <button type="button" className="danger" onClick={onDelete}>Delete</button>
      </div>
    </dialog>
  );
}

export function Approval({ text, answer, onAnswer }) {
  const [isAnswered, setAnswered] = useState(false);
  function say(approved) {
    setAnswered(true);
    onAnswer(approved);
  }
  if (answer) return <p className="call">Publish “{text}”: {answer}</p>;
  return (
    <div className="call" role="group" aria-label="Approval">
      <p>Publish “{text}”?</p>
      <button type="button" className="main" disabled={isAnswered} onClick={() => say(true)}>Approve</button>
      <button type="button" disabled={isAnswered} onClick={() => say(false)}>Deny</button>
    </div>
  );
}

export function Header({ user }) {
  return (
    <form className="user" method="post" action="/logout">
      <span>{user.name}</span>
      <button className="plain">Log out</button>
    </form>
  );
}

// An error that the user should see, until the next action works or the server is back.
export function useErrors(isLive) {
  const [error, setError] = useState(null);
  useEffect(() => {
    if (isLive) setError(null);
  }, [isLive]);
  async function attempt(action) {
    try {
      const result = await action();
      setError(null);
      return result;
    } catch (failure) {
      setError(failure instanceof TypeError ? "The server is away. Try again in a moment." : failure.message);
    }
  }
  return [error, attempt, () => setError(null)];
}

const visibility = (callback) => {
  document.addEventListener("visibilitychange", callback);
  return () => document.removeEventListener("visibilitychange", callback);
};
export const useIsVisible = () => useSyncExternalStore(visibility, () => document.visibilityState === "visible");

// The open conversation is in the URL: reloads and the browser's back button work. Null: the list, on a small screen.
const place = (callback) => {
  addEventListener("popstate", callback);
  return () => removeEventListener("popstate", callback);
};
export function useOpenName() {
  const name = useSyncExternalStore(place, () => new URLSearchParams(location.search).get("c"));
  function open(next) {
    if (next === new URLSearchParams(location.search).get("c")) return;
    history.pushState(null, "", next ? `?c=${encodeURIComponent(next)}` : location.pathname);
    dispatchEvent(new PopStateEvent("popstate"));
  }
  return [name, open];
}
