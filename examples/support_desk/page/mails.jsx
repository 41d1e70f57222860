// The mails that a real product would send, and what webhooks tell other services.

import { useEffect, useState } from "react";
import { Time } from "./parts.jsx";
import { request } from "./server.js";

const EVERY = 3000; // milliseconds

export function Mails() {
  const [found, setFound] = useState(null);
  useEffect(() => {
    const load = () => request("GET", "/mails").then(setFound, () => {});
    const timer = setInterval(load, EVERY);
    load();
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <header><h2>Mails</h2></header>
      <div className="messages">
        {found && !found.mails.length && !found.webhooks.length && <div className="empty"><p className="quiet">No mails. They are sent about conversations that you do not have open.</p></div>}
        <ul className="cards">
          {found?.mails.map((each) => (
            <li key={each.id}>
              <span className="row"><a href={each.link}><b>{each.subject}</b></a><Time at={each.at * 1000} /></span>
              <span className="quiet">{each.text}</span>
            </li>
          ))}
          {found?.webhooks.map((each) => (
            <li key={each.id}>
              <span className="row"><b>Webhook {each.type}</b><Time at={each.timestamp} /></span>
              <span className="quiet">{each.data.title} · {each.data.status ?? each.data.approval?.tool} · owner {each.data.owner}</span>
            </li>
          ))}
        </ul>
      </div>
    </>
  );
}
