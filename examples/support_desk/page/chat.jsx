// One conversation: the stock hooks, the calls of the agent's tools, approvals, presence and read positions.

import { Suspense, useEffect, useRef, useState } from "react";
import { useAgent } from "agents/react";
import { useAgentChat } from "@cloudflare/ai-chat/react";
import { Away, Loading } from "./parts.jsx";
import { conversationPath, findApprovals, loadMessages, request, upload } from "./server.js";

const CALLS = {
  find_order: ({ number }) => `Look up order ${number}`,
  track: ({ number }) => `Ask where order ${number} is`,
  refund: ({ order, amount }) => `Refund of ${amount.toFixed(2)} € for order ${order}`,
  change_address: ({ order, address }) => `Send order ${order} to ${address}`,
};
const STATES = {
  "input-available": "working…",
  "approval-responded": "approved, working…",
  "output-available": "done",
  "output-denied": "declined",
  "output-error": "failed",
};

export function Chat(props) {
  return (
    <Suspense fallback={<><Loading /><Away isAway={props.isAway} /></>}>
      <Conversation key={props.name} {...props} />
    </Suspense>
  );
}

function Conversation({ name, entry, user, empty }) {
  const [isAway, setIsAway] = useState(false);
  const [here, setHere] = useState([]);
  const agent = useAgent({
    agent: "support",
    name,
    host: location.host,
    query: { presence: "1" },
    onOpen: () => setIsAway(false),
    onClose: () => setIsAway(true),
    onMessage: (event) => {
      const frame = JSON.parse(event.data);
      if (frame.type === "everyword_presence") setHere(frame.principals);
    },
  });
  const { messages, sendMessage, stop, status, isServerStreaming, error, clearError } = useAgentChat({ agent, getInitialMessages: loadMessages });
  const isBusy = status === "submitted" || status === "streaming" || isServerStreaming;
  const others = here.filter((each) => each.id !== user.id).map((each) => each.name);
  useReadPosition(entry, isBusy);
  const approvals = useApprovals(messages, entry, user);
  const last = messages.at(-1);
  const isThinking = isBusy && (last?.role !== "assistant" || !last.parts.some((part) => part.type !== "step-start"));

  return (
    <>
      <p className="presence" role="status">{others.length > 0 && <><i /> {others.join(" and ")} {others.length > 1 ? "are" : "is"} here</>}</p>
      <div className="messages">
        {messages.length === 0 && !isBusy ? (
          <div className="empty">{empty(sendMessage)}</div>
        ) : (
          <ol aria-live="polite" aria-label="Messages">
            {messages.map((message) => (
              <li key={message.id} data-role={message.role}>
                {joined(message.parts).map((part, index) => (
                  <Part key={part.toolCallId ?? index} part={part} approval={approvals.find((each) => each.toolCallId === part.toolCallId)} />
                ))}
              </li>
            ))}
            {isThinking && <li data-role="assistant" className="thinking" aria-label="The answer begins"><i /><i /><i /></li>}
          </ol>
        )}
      </div>
      <Away isAway={isAway} />
      {!isBusy && !isAway && (error || entry?.status === "failed") && (
        <p className="problem" role="alert">
          <span>{error?.message ?? "We could not answer. Please ask again."}</span>
          {error && <button type="button" onClick={clearError}>Close</button>}
        </p>
      )}
      {user.role === "customer" && <Composer name={name} isNew={messages.length === 0} isBusy={isBusy} stop={stop} send={sendMessage} />}
    </>
  );
}

// A conversation is read when it is open, visible and complete. The user's other tabs are told.
function useReadPosition(entry, isBusy) {
  const [isVisible, setIsVisible] = useState(document.visibilityState === "visible");
  useEffect(() => {
    const changed = () => setIsVisible(document.visibilityState === "visible");
    document.addEventListener("visibilitychange", changed);
    return () => document.removeEventListener("visibilitychange", changed);
  }, []);
  const { messages, unread = 0, status, updatedAt } = entry ?? {};
  useEffect(() => {
    if (isVisible && unread > 0 && !isBusy && status !== "running")
      request("POST", `${conversationPath(entry)}/read`, { messages }).catch(() => {}); // the next change tries again
  }, [isVisible, unread, messages, status, updatedAt, isBusy]);
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

// The approvals that this conversation waits for, with `mayAnswer`. They are asked for when a call waits.
function useApprovals(messages, entry, user) {
  const [known, setKnown] = useState([]);
  const waiting = messages.flatMap((message) => message.parts.filter((part) => part.state === "approval-requested").map((part) => part.toolCallId)).join();
  useEffect(() => {
    if (!waiting || !entry) return setKnown([]);
    let isCurrent = true;
    findApprovals(entry, user.role === "staff" ? "all" : "mine").then((found) => isCurrent && setKnown(found), () => {});
    return () => (isCurrent = false);
  }, [waiting, entry?.name, entry?.status]);
  return known;
}

// Messages may have any address. A picture from elsewhere would tell its server who reads the conversation, and when.
const isOurs = (url) => url.startsWith("/agents/") || url.startsWith("data:image/");

function Part({ part, approval }) {
  if (part.type === "text") return part.text ? <p dir="auto">{part.text}</p> : null;
  if (part.type === "file" && !isOurs(part.url)) return <p className="quiet">{part.filename ?? "A file"} (not shown)</p>;
  if (part.type === "file" && part.mediaType.startsWith("image/"))
    return <a href={part.url} target="_blank" rel="noreferrer"><img className="photo" src={part.url} alt={part.filename ?? "A photo"} /></a>;
  if (!part.type.startsWith("tool-")) return null;
  const label = part.input && CALLS[part.type.slice(5)]?.(part.input);
  if (part.state === "approval-requested")
    return (
      <div className="call" data-state={part.state}>
        <b dir="auto">{approval?.summary ?? label}</b>
        {approval?.mayAnswer ? <Answer approval={approval} /> : <span className="quiet">Waiting for our staff to approve it. You may leave; the answer will be here.</span>}
      </div>
    );
  return (
    <div className="call" data-state={part.state}>
      {label} <span className="quiet">{part.preliminary ? part.output : STATES[part.state]}</span>
    </div>
  );
}

// Two buttons and a reason. The first answer counts: who is late is told whose it was.
export function Answer({ approval, withReason, onRefused }) {
  const [state, setState] = useState("");
  const reason = useRef(null);
  async function answer(event, approved) {
    if (event.detail > 1) return; // the second click of a double one: another call may be at its place by now
    setState("sending");
    try {
      await request("POST", `/agents/approvals/${approval.id}`, { approved, reason: reason.current?.value.trim() || null });
    } catch (problem) {
      setState(problem.message);
      onRefused?.(problem.message); // an inbox shows it: the call itself may be gone by now
    }
  }
  return (
    <>
      {withReason && <input ref={reason} maxLength={1000} aria-label="Reason" placeholder="Reason, for the record and the customer (optional)" />}
      <div className="buttons">
        <button type="button" disabled={state === "sending"} onClick={(event) => answer(event, false)}>Decline</button>
        <button type="button" disabled={state === "sending"} className="primary" onClick={(event) => answer(event, true)}>Approve</button>
      </div>
      {state && state !== "sending" && !onRefused && <p role="alert">{state}</p>}
    </>
  );
}

// The text box. Photos are uploaded when they are chosen, so that a refusal is seen before the question is sent.
function Composer({ name, isNew, isBusy, stop, send }) {
  const [text, setText] = useState("");
  const [photos, setPhotos] = useState([]);
  const [problem, setProblem] = useState("");
  const [isUploading, setIsUploading] = useState(false);
  const input = useRef(null);
  async function choose(event) {
    const chosen = [...event.target.files];
    event.target.value = "";
    setProblem("");
    setIsUploading(true);
    for (const file of chosen)
      await upload(name, file).then(
        (photo) => setPhotos((before) => [...before, photo]),
        (failure) => setProblem(failure.message), // the others are added all the same
      );
    setIsUploading(false);
  }
  const submit = (event) => {
    event.preventDefault();
    if (isUploading || (!text.trim() && !photos.length)) return;
    send({ text, files: photos });
    setText("");
    setPhotos([]);
    setProblem("");
  };
  return (
    <form className="composer" onSubmit={submit}>
      {problem && <p role="alert">{problem}</p>}
      {photos.length > 0 && (
        <div className="photos">
          {photos.map((each, index) => (
            <button key={index} type="button" title={`Remove ${each.filename}`} aria-label={`Remove ${each.filename}`} onClick={() => setPhotos(photos.filter((other) => other !== each))}>
              <img src={each.url} alt="" /> ×
            </button>
          ))}
        </div>
      )}
      <input ref={input} type="file" accept="image/*" multiple hidden onChange={choose} aria-label="Photos" />
      <button type="button" disabled={isUploading} onClick={() => input.current.click()}>{isUploading ? "Uploading…" : "Photo"}</button>
      <input className="text" dir="auto" value={text} onChange={(event) => setText(event.target.value)} placeholder="How can we help?" aria-label="Your message" autoComplete="off" autoFocus={isNew} />
      {isBusy && <button type="button" onClick={() => stop()}>Stop</button>}
      <button type="submit" className="primary" disabled={isUploading || (!text.trim() && !photos.length)}>Send</button>
    </form>
  );
}
