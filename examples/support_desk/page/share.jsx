// The dialog of shared links: make one, copy it while it is shown, see the others and revoke them.

import { useEffect, useRef, useState } from "react";
import { Time } from "./parts.jsx";
import { conversationPath, request } from "./server.js";

const DAY = 24 * 3600; // seconds

export function Share({ entry, onClose }) {
  const dialog = useRef(null);
  const [links, setLinks] = useState(null);
  const [made, setMade] = useState(null); // the new link: its address is shown once
  const [error, setError] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const path = `${conversationPath(entry)}/shares`;
  const load = () => request("GET", path).then(({ shares }) => setLinks(shares.reverse()));
  useEffect(() => {
    dialog.current.showModal();
    run(load);
  }, []);

  async function run(work) {
    setError("");
    setIsBusy(true);
    await work().catch((problem) => setError(problem.message));
    setIsBusy(false);
  }
  function create(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    run(async () => {
      const wanted = { frozen: form.get("what") === "frozen", files: form.has("files"), tools: "none" };
      const link = await request("POST", path, { ...wanted, expiresIn: Number(form.get("days")) * DAY });
      setMade({ id: link.id, url: new URL(link.path, location.href).href });
      await load();
    });
  }
  const revoke = (link) =>
    run(async () => {
      await request("DELETE", `${path}/${link.id}`).finally(load); // another tab may have been faster
      if (made?.id === link.id) setMade(null);
    });

  return (
    <dialog ref={dialog} className="share" onClose={onClose} aria-labelledby="share-title">
      <form onSubmit={create}>
        <h2 id="share-title">Share the conversation</h2>
        <p className="quiet">Anyone with the link can read it, without an account: your messages and our answers, not your name.</p>
        <fieldset>
          <legend>What readers see</legend>
          <label><input type="radio" name="what" value="frozen" defaultChecked /> The conversation as it is now</label>
          <label><input type="radio" name="what" value="live" /> New messages, too</label>
          <label><input type="checkbox" name="files" defaultChecked /> With photos</label>
        </fieldset>
        <label className="row">The link works for
          <select name="days" defaultValue="7"><option value="7">7 days</option><option value="30">30 days</option></select>
        </label>
        {made && <Made key={made.id} url={made.url} />}
        {error && <p role="alert">{error}</p>}
        <div className="buttons">
          <button type="button" onClick={onClose}>Close</button>
          <button type="submit" className="primary" disabled={isBusy}>Create a link</button>
        </div>
      </form>
      {links?.length > 0 && (
        <section aria-labelledby="share-links">
          <h3 id="share-links">Links</h3>
          <ul>
            {links.map((each) => (
              <li key={each.id} className="row">
                <span>
                  {each.frozen ? "As it was" : "With new messages"}, <Time at={each.createdAt} />
                  <span className="quiet"> · {each.expired ? "expired" : <>until <Day at={each.expiresAt} /></>}{made?.id === each.id && " · the one above"}</span>
                </span>
                <button type="button" disabled={isBusy} onClick={() => revoke(each)}>Revoke</button>
              </li>
            ))}
          </ul>
        </section>
      )}
    </dialog>
  );
}

function Day({ at }) {
  const date = new Date(at);
  return <time dateTime={date.toISOString()} title={date.toLocaleString()}>{date.toLocaleDateString([], { day: "numeric", month: "short" })}</time>;
}

function Made({ url }) {
  const field = useRef(null);
  const [said, setSaid] = useState("");
  useEffect(() => field.current.select(), []);
  async function copy() {
    field.current.select();
    try {
      await navigator.clipboard.writeText(url); // needs HTTPS, or localhost
      setSaid("Copied.");
    } catch {
      setSaid("The link is selected: copy it with Ctrl+C.");
    }
  }
  return (
    <div className="made">
      <div className="row"><input ref={field} readOnly value={url} aria-label="Link" /><button type="button" onClick={copy}>Copy</button></div>
      <p className="quiet" role="status">{said || "Copy it now: it is not shown again."}</p>
    </div>
  );
}
