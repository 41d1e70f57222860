// The account of a customer: a copy of its data, and the deletion of all of it.

import { useEffect, useState } from "react";
import { Ask } from "./parts.jsx";
import { request } from "./server.js";

export function Account({ user, signOut, onDelete }) {
  const [isAsking, setIsAsking] = useState(false);
  return (
    <>
      <h1><button type="button" className="link" popoverTarget="account">{user.name} ▾</button></h1>
      <div id="account" className="menu" popover="auto" aria-label="Account">
        <a href="/account/data" download>Download my data</a>
        <button type="button" onClick={() => setIsAsking(true)}>Delete my data…</button>
        <button type="button" onClick={signOut}>Sign out</button>
      </div>
      {isAsking && (
        <Ask title="Delete all your data?" yes="Delete my data" isDangerous onClose={() => setIsAsking(false)}
          onYes={async (form) => {
            if (form.get("name").trim() !== user.name) throw new Error(`Type ${user.name}, as it is written here.`);
            onDelete(user);
          }}>
          <p>All your conversations are deleted, with their photos, links and mails, for you and for our staff. Answers that are being written are stopped. This cannot be undone.</p>
          <p className="quiet">You may want to <a href="/account/data" download>download your data</a> first.</p>
          <label className="field"><span>Type <b>{user.name}</b> to go on</span><input name="name" autoComplete="off" autoFocus /></label>
        </Ask>
      )}
    </>
  );
}

// Shown in place of the desk, whose connections the server ends: deletes the data and reports.
export function Farewell({ user, onEnd }) {
  const [report, setReport] = useState(null);
  const [error, setError] = useState("");
  const run = () => {
    setError("");
    request("POST", "/account/delete", { name: user.name }).then(setReport, (problem) => setError(problem.message));
  };
  useEffect(run, []);
  if (error)
    return (
      <main className="login">
        <h1>Your data was not deleted</h1>
        <p role="alert">{error}</p>
        <div className="buttons"><button type="button" onClick={onEnd}>Back</button><button type="button" className="primary" onClick={run}>Try again</button></div>
      </main>
    );
  if (!report) return <main className="login" aria-busy="true"><p className="quiet">Your data is being deleted…</p></main>;
  return (
    <main className="login" role="status">
      <h1>{report.isComplete ? "Your data was deleted" : "Not all of your data could be deleted yet"}</h1>
      <p>We deleted {count(report.conversations, "conversation")}{report.mails > 0 && ` and ${count(report.mails, "mail")}`}. You are signed out everywhere.</p>
      {!report.isComplete && <p>Sign in and delete it again, or tell us.</p>}
      <p className="quiet">If you have a question about it, tell us this number: <b>{report.id}</b></p>
      <button type="button" className="primary" onClick={onEnd}>Done</button>
    </main>
  );
}

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
