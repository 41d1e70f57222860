// The page: sign in, then the view of a customer or of staff. The address has the place: #/c/ann-1, #/inbox, #/record.

import { StrictMode, useCallback, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Farewell } from "./account.jsx";
import { Customer } from "./customer.jsx";
import { request } from "./server.js";
import { Staff } from "./staff.jsx";

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // a broken link leads to the start
  }
}

function usePlace() {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const changed = () => setPlace(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const go = useCallback((...parts) => (location.hash = `#/${parts.map(encodeURIComponent).join("/")}`), []);
  return [place, go];
}

function Login({ people }) {
  const [error, setError] = useState("");
  async function signIn(person) {
    try {
      await request("POST", "/login", { user: person.id });
      location.hash = "";
      location.reload();
    } catch (problem) {
      setError(problem.message);
    }
  }
  const group = (role, title) => (
    <section>
      <h2>{title}</h2>
      {people.filter((each) => each.role === role).map((each) => (
        <button key={each.id} type="button" className="person" onClick={() => signIn(each)}>
          <b>{each.name}</b> <span>{each.about}</span>
        </button>
      ))}
    </section>
  );
  return (
    <main className="login">
      <h1>Support desk</h1>
      <p>Who are you? Open a second window, or a private one, to be a customer and staff at once.</p>
      {group("customer", "Customers")}
      {group("staff", "Staff")}
      {error && <p role="alert">{error}</p>}
    </main>
  );
}

function App() {
  const [session, setSession] = useState(null);
  const [error, setError] = useState("");
  const [leaving, setLeaving] = useState(null); // the user whose data is deleted
  const [place, go] = usePlace();
  const load = () => request("GET", "/session").then(setSession, (problem) => setError(problem.message));
  useEffect(() => void load(), []);
  if (leaving)
    return <Farewell user={leaving} onEnd={() => { location.hash = ""; location.reload(); }} />;
  if (error)
    return (
      <main className="login">
        <p role="alert">{error}</p>
        <button type="button" onClick={() => { setError(""); load(); }}>Try again</button>
      </main>
    );
  if (!session) return <main className="login" aria-busy="true"><p className="quiet">Loading…</p></main>;
  if (!session.user) return <Login people={session.people} />;
  const signOut = () => request("POST", "/logout").finally(() => location.reload());
  const View = session.user.role === "staff" ? Staff : Customer;
  return <View user={session.user} place={place} go={go} signOut={signOut} onDelete={setLeaving} />;
}

createRoot(document.getElementById("root")).render(<StrictMode><App /></StrictMode>);
