// Small pieces that both views use.

import { useEffect, useRef, useState } from "react";

export const STATUS = { running: "answering", waiting: "waiting for approval", failed: "failed", idle: "" };

export function Time({ at }) {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  const short = isToday ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString([], { day: "numeric", month: "short" });
  return <time dateTime={date.toISOString()} title={date.toLocaleString()}>{short}</time>;
}

export const Loading = () => <p className="quiet center" aria-busy="true">Loading…</p>;

// The list of a sidebar: null is not known yet. `who` names the customer, for staff.
export function Entries({ shown, open, go, who, loadMore, empty }) {
  const [isLoading, setIsLoading] = useState(false);
  async function more() {
    setIsLoading(true);
    await loadMore().catch(() => {}); // the button is still there
    setIsLoading(false);
  }
  return (
    <>
      {!shown && <Loading />}
      {shown?.length === 0 && <p className="quiet center">{empty}</p>}
      <ul>
        {shown?.map((each) => (
          <li key={each.name}><Entry each={each} who={who?.(each)} isOpen={each.name === open} onOpen={() => go("c", each.name)} /></li>
        ))}
        {loadMore && <li className="center"><button type="button" disabled={isLoading} onClick={more}>Older conversations</button></li>}
      </ul>
    </>
  );
}

function Entry({ each, isOpen, onOpen, who }) {
  return (
    <button type="button" className="entry" aria-current={isOpen || undefined} onClick={onOpen}>
      <span className="row">
        <b className="title" dir="auto">{each.title || "New conversation"}</b>
        <Time at={each.updatedAt} />
      </span>
      <span className="row">
        <span className="preview" dir="auto">{who ? `${who} · ` : ""}{each.preview}</span>
        {STATUS[each.status] && <span className="badge" data-status={each.status}>{STATUS[each.status]}</span>}
        {each.unread > 0 && <span className="unread" aria-label={`${each.unread} unread`}>{each.unread}</span>}
      </span>
    </button>
  );
}

// A modal question. `children` are its fields; `onYes` may fail, and its text is shown.
export function Ask({ title, yes, isDangerous, onYes, onClose, children }) {
  const dialog = useRef(null);
  const [error, setError] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => dialog.current.showModal(), []);
  async function submit(event) {
    event.preventDefault();
    setIsBusy(true);
    try {
      await onYes(new FormData(event.target));
      onClose();
    } catch (problem) {
      setError(problem.message);
      setIsBusy(false);
    }
  }
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="ask-title">
      <form onSubmit={submit}>
        <h2 id="ask-title">{title}</h2>
        {children}
        {error && <p role="alert">{error}</p>}
        <div className="buttons">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" className={isDangerous ? "danger" : "primary"} disabled={isBusy}>{yes}</button>
        </div>
      </form>
    </dialog>
  );
}

export function Away({ isAway }) {
  const [isShown, setIsShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setIsShown(isAway), isAway ? 1500 : 0); // not for a hiccup
    return () => clearTimeout(timer);
  }, [isAway]);
  return isShown ? <p className="away" role="status">The server is away. This page tries again by itself.</p> : null;
}
