// The view of staff: what waits for an answer, all conversations, and the record of what was answered.

import { useEffect, useState } from "react";
import { Answer, Chat } from "./chat.jsx";
import { Mails } from "./mails.jsx";
import { Away, Entries, Loading, Time } from "./parts.jsx";
import { request, useConversation, useConversations, useInbox } from "./server.js";

export function Staff({ user, place, go, signOut }) {
  const conversations = useConversations("all");
  const waiting = useInbox();
  const [view = ""] = place;
  const open = view === "c" ? place[1] : null;
  const { entry, problem, isKnown } = useConversation(open, conversations);
  const isAway = conversations.all !== null && !conversations.isLive;
  const count = waiting?.filter((each) => each.mayAnswer).length ?? 0;
  useEffect(() => void (document.title = count ? `(${count}) Support desk` : "Support desk"), [count]);
  const tab = (name, title) => (
    <button type="button" aria-pressed={(view || "inbox") === name} onClick={() => go(name)}>{title}</button>
  );
  return (
    <div className="desk" data-open={view ? "chat" : "list"}>
      <nav aria-label="Conversations">
        <header>
          <h1>{user.name} <span className="quiet">staff</span></h1>
          <button type="button" className="link" onClick={signOut}>Sign out</button>
        </header>
        <div className="bar">
          {tab("inbox", count ? `Inbox (${count})` : "Inbox")}
          {tab("record", "Record")}
          {tab("mails", "Mails")}
        </div>
        <Entries shown={conversations.all} who={who} open={open} go={go} loadMore={conversations.loadMore} empty="No customer has asked anything yet." />
        <Away isAway={isAway} />
      </nav>
      <main>
        {view && <button type="button" className="link back alone" onClick={() => go("")}>‹ Back</button>}
        {open && !entry && (problem || conversations.removed === open) ? (
          <div className="empty"><h2>There is no such conversation</h2><p className="quiet">The customer may have deleted it.</p></div>
        ) : open && !isKnown ? (
          <Loading />
        ) : open ? (
          <>
            <header><h2 dir="auto">{entry?.title || "Conversation"}</h2><span className="quiet">{entry && who(entry)}</span></header>
            <Chat name={open} entry={entry} user={user} isAway={isAway} empty={() => <p className="quiet">This conversation has no messages.</p>} />
          </>
        ) : view === "record" ? <Record go={go} /> : view === "mails" ? <Mails /> : <Inbox waiting={waiting} go={go} />}
      </main>
    </div>
  );
}

const SETTLED = { approved: "approved", denied: "declined", expired: "expired" };
const who = (each) => each.participants.find((person) => person.id === each.owner)?.name ?? each.owner;

function Facts({ each, go }) {
  return (
    <>
      <span className="row"><b dir="auto">{each.summary ?? each.tool}</b>{each.risk && <span className="badge" data-risk={each.risk}>{each.risk} risk</span>}</span>
      <span className="quiet">
        asked by {each.askedBy?.name ?? "the agent"}, <Time at={each.askedAt} />
        {each.expiresAt && each.status === "waiting" && <>, expires <Time at={each.expiresAt} /></>}
        {" · "}<button type="button" className="link" onClick={() => go("c", each.name)}>open the conversation</button>
      </span>
    </>
  );
}

function Inbox({ waiting, go }) {
  const [notice, setNotice] = useState("");
  const mine = waiting?.filter((each) => each.mayAnswer);
  return (
    <>
      <header><h2>Inbox</h2></header>
      {notice && <p className="problem" role="alert"><span>{notice}</span> <button type="button" onClick={() => setNotice("")}>Close</button></p>}
      <div className="messages">
        {!mine && <Loading />}
        {mine?.length === 0 && <div className="empty"><h2>All done</h2><p className="quiet">What needs your approval appears here by itself.</p></div>}
        <ul className="cards" aria-live="polite">
          {mine?.map((each) => <li key={each.id}><Facts each={each} go={go} /><Answer approval={each} withReason onRefused={setNotice} /></li>)}
        </ul>
      </div>
    </>
  );
}

function Record({ go }) {
  const [pages, setPages] = useState([]);
  const [erasures, setErasures] = useState([]);
  const [error, setError] = useState("");
  const load = (cursor) =>
    request("GET", `/agents/approvals?settled=1&scope=all${cursor ? `&cursor=${cursor}` : ""}`).then(
      (page) => setPages((before) => (cursor ? [...before, page] : [page])),
      (problem) => setError(problem.message),
    );
  useEffect(() => {
    load();
    request("GET", "/erasures").then((found) => setErasures(found.erasures), (problem) => setError(problem.message));
  }, []);
  const all = pages.flatMap((page) => page.approvals);
  const more = pages.at(-1)?.cursor;
  return (
    <>
      <header><h2>Record</h2></header>
      <div className="messages">
        {error && <p role="alert">{error}</p>}
        {pages.length > 0 && all.length === 0 && erasures.length === 0 && <div className="empty"><p className="quiet">Nothing was approved or declined yet.</p></div>}
        <ul className="cards">
          {all.map((each) => (
            <li key={`${each.id}${each.settledAt}`} data-status={each.status}>
              <Facts each={each} go={go} />
              <span>{SETTLED[each.status]}{each.settledBy && ` by ${each.settledBy.name}`}, <Time at={each.settledAt} />{each.reason && `: ${each.reason}`}</span>
            </li>
          ))}
        </ul>
        {erasures.length > 0 && (
          <ul className="cards" aria-label="Deleted data">
            {erasures.map((each) => (
              <li key={each.id}>
                <span className="row"><b>A customer’s data was deleted</b><Time at={each.at * 1000} /></span>
                <span className="quiet">{each.conversations} conversation{each.conversations === 1 ? "" : "s"} · known as {each.id} from now on{!each.isComplete && " · not complete"}</span>
              </li>
            ))}
          </ul>
        )}
        {more && <button type="button" onClick={() => load(more)}>Older</button>}
      </div>
    </>
  );
}
