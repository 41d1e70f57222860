// The view of a customer: a sidebar of its own conversations, and the open one.

import { useEffect, useState } from "react";
import { Account } from "./account.jsx";
import { Chat } from "./chat.jsx";
import { Mails } from "./mails.jsx";
import { Ask, Away, Entries, Loading } from "./parts.jsx";
import { Share } from "./share.jsx";
import { conversationPath, request, useConversation, useConversations } from "./server.js";

const SUGGESTIONS = ["I want a refund for order 1002", "Where is order 1003?", "Send order 1003 to 5 Mill Lane", "What can you do?"];

export function Customer({ user, place, go, signOut, onDelete }) {
  const conversations = useConversations("mine");
  const [isArchive, setIsArchive] = useState(false);
  const [question, setQuestion] = useState(null); // "share", "rename" or "delete"
  const [begun, setBegun] = useState(null); // the name of a new conversation; the server knows it with the first message
  const open = place[0] === "c" ? place[1] : null;
  const { entry, problem, isKnown } = useConversation(open, conversations, begun === open);

  const isAway = conversations.all !== null && !conversations.isLive;
  const isGone = open && !entry && (conversations.removed === open || (isKnown && problem?.status === 404));
  useEffect(() => {
    if (isGone) go(""); // deleted, here or in another tab
  }, [isGone]);
  const unread = conversations.all?.filter((each) => !each.archived && each.unread > 0).length ?? 0;
  useEffect(() => void (document.title = unread ? `(${unread}) Support desk` : "Support desk"), [unread]);

  function start() {
    const name = `${user.id}-${crypto.randomUUID().slice(0, 13)}`;
    setBegun(name);
    go("c", name);
  }
  const shown = conversations.all?.filter((each) => each.archived === isArchive);
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
        <Entries shown={shown} open={open} go={go} loadMore={conversations.loadMore} empty={isArchive ? "Nothing is archived." : "No conversations yet."} />
        <Away isAway={isAway} />
      </nav>
      <main>
        {open && problem?.status === 403 ? (
          <Refused go={go} />
        ) : open && !isKnown && !problem ? (
          <Loading />
        ) : open ? (
          <>
            <header>
              <button type="button" className="link back" onClick={() => go("")}>‹ Back</button>
              <h2 dir="auto">{entry?.title || "New conversation"}</h2>
              {entry && (
                <span className="actions">
                  <button type="button" onClick={() => setQuestion("share")}>Share…</button>
                  <button type="button" onClick={() => setQuestion("rename")}>Rename…</button>
                  <button type="button" onClick={() => archive(!entry.archived)}>{entry.archived ? "Unarchive" : "Archive"}</button>
                  <button type="button" onClick={() => setQuestion("delete")}>Delete…</button>
                </span>
              )}
            </header>
            <Chat name={open} entry={entry} user={user} isAway={isAway} empty={(send) => (
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
          onYes={async (form) => {
            const title = form.get("title").trim();
            if (title !== entry.title) await request("PATCH", conversationPath(entry), { title: title || null });
          }}>
          <label className="field"><span>Title</span><input name="title" dir="auto" defaultValue={entry.title} maxLength={200} onFocus={(event) => event.target.select()} autoFocus /></label>
          <p className="quiet">Without a title of yours, we choose one.</p>
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

// The address of somebody else's conversation, for example from a mail to another account.
function Refused({ go }) {
  return (
    <div className="empty">
      <h2>You cannot see this conversation</h2>
      <p className="quiet">It belongs to another account. Sign in with that one, or begin a conversation of your own.</p>
      <button type="button" onClick={() => go("")}>Back</button>
    </div>
  );
}
