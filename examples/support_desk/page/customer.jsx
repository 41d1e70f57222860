// The view of a customer: a sidebar of its own conversations, and the open one.

import { useEffect, useState } from "react";
import { Account } from "./account.jsx";
import { Chat } from "./chat.jsx";
import { Mails } from "./mails.jsx";
import { Ask, Away, Entry } from "./parts.jsx";
import { Share } from "./share.jsx";
import { conversationPath, request, useConversations } from "./server.js";

const SUGGESTIONS = ["I want a refund for order 1002", "Where is order 1003?", "Send order 1003 to 5 Mill Lane", "What can you do?"];

export function Customer({ user, place, go, signOut, onDelete }) {
  const [conversations, isLive] = useConversations("mine");
  const [isArchive, setIsArchive] = useState(false);
  const [question, setQuestion] = useState(null); // "share", "rename" or "delete"
  const open = place[0] === "c" ? place[1] : null;
  const entry = conversations?.find((each) => each.name === open);
  const [wasListed, setWasListed] = useState(null);

  useEffect(() => {
    if (entry) setWasListed(open);
    else if (conversations && open && wasListed === open) go(""); // deleted, here or in another tab
  }, [entry, conversations, open]);
  const unread = conversations?.filter((each) => !each.archived && each.unread > 0).length ?? 0;
  useEffect(() => void (document.title = unread ? `(${unread}) Support desk` : "Support desk"), [unread]);

  const start = () => go("c", `${user.id}-${crypto.randomUUID().slice(0, 13)}`);
  const shown = conversations?.filter((each) => each.archived === isArchive);
  const archive = (archived) => request("PATCH", conversationPath(entry), { archived }).then(() => archived && go(""), (problem) => alert(problem.message));

  return (
    <div className="desk" data-open={place[0] ? "chat" : "list"}>
      <nav aria-label="Conversations">
        <header>
          <Account user={user} signOut={signOut} onDelete={onDelete} />
        </header>
        <div className="bar">
          <button type="button" className="primary" onClick={start}>New conversation</button>
          <button type="button" aria-pressed={place[0] === "mails"} onClick={() => go("mails")}>Mails</button>
          <button type="button" aria-pressed={isArchive} onClick={() => setIsArchive(!isArchive)}>Archived</button>
        </div>
        {!shown && <p className="quiet center" aria-busy="true">Loading…</p>}
        {shown?.length === 0 && <p className="quiet center">{isArchive ? "Nothing is archived." : "No conversations yet."}</p>}
        <ul>
          {shown?.map((each) => (
            <li key={each.name}><Entry each={each} isOpen={each.name === open} onOpen={() => go("c", each.name)} /></li>
          ))}
        </ul>
        <Away isAway={conversations !== null && !isLive} />
      </nav>
      <main>
        {open ? (
          <>
            <header>
              <button type="button" className="link back" onClick={() => go("")}>‹ Back</button>
              <h2>{entry?.title || "New conversation"}</h2>
              {entry && (
                <span className="actions">
                  <button type="button" onClick={() => setQuestion("share")}>Share…</button>
                  <button type="button" onClick={() => setQuestion("rename")}>Rename</button>
                  <button type="button" onClick={() => archive(!entry.archived)}>{entry.archived ? "Unarchive" : "Archive"}</button>
                  <button type="button" onClick={() => setQuestion("delete")}>Delete</button>
                </span>
              )}
            </header>
            <Chat name={open} entry={entry} user={user} empty={(send) => (
              <>
                <h2>How can we help?</h2>
                {SUGGESTIONS.map((text) => <button key={text} type="button" onClick={() => send({ text })}>{text}</button>)}
              </>
            )} />
          </>
        ) : place[0] === "mails" ? (
          <>
            <button type="button" className="link back alone" onClick={() => go("")}>‹ Back</button>
            <Mails />
          </>
        ) : (
          <div className="empty wide"><h2>Hello {user.name}</h2><p className="quiet">Open a conversation, or begin a new one.</p><button type="button" className="primary" onClick={start}>New conversation</button></div>
        )}
      </main>
      {question === "share" && entry && <Share key={entry.name} entry={entry} onClose={() => setQuestion(null)} />}
      {question === "rename" && entry && (
        <Ask title="Rename the conversation" yes="Rename" onClose={() => setQuestion(null)}
          onYes={(form) => request("PATCH", conversationPath(entry), { title: form.get("title").trim() || null })}>
          <input name="title" defaultValue={entry.hasOwnTitle ? entry.title : ""} placeholder={entry.title} maxLength={200} aria-label="Title" autoFocus />
        </Ask>
      )}
      {question === "delete" && entry && (
        <Ask title="Delete the conversation?" yes="Delete" isDangerous onClose={() => setQuestion(null)}
          onYes={() => request("DELETE", conversationPath(entry))}>
          <p>“{entry.title}” and all its messages are deleted for you and for our staff. This cannot be undone.</p>
        </Ask>
      )}
    </div>
  );
}
