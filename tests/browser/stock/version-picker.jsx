// Shows which version of a message is shown ("2 of 3") and the buttons for the others.

import { useEffect, useState } from "react";

export function useVersions(agent, { messages, status }) {
  const [places, setPlaces] = useState([]);
  const shown = [status, ...messages.map((message) => message.id)].join();
  useEffect(() => {
    let isCurrent = true;
    agent.call("get_versions").then(
      (found) => isCurrent && setPlaces(found),
      () => {}, // the connection is gone; the next one brings a transcript, and asks again
    );
    return () => {
      isCurrent = false;
    };
  }, [shown]);
  return places;
}

export function Versions({ agent, place }) {
  const { shown, versions } = place;
  const at = shown ?? versions.length;
  const show = (index) => agent.call("switch_version", [versions[index]]);
  return (
    <nav aria-label="versions">
      <button disabled={at === 0} onClick={() => show(at - 1)} aria-label="the version before">
        ‹
      </button>
      {shown === null ? "none" : shown + 1} of {versions.length}
      <button disabled={at >= versions.length - 1} onClick={() => show(at + 1)} aria-label="the next version">
        ›
      </button>
    </nav>
  );
}
