const main = document.querySelector("main")
const note = document.querySelector("[role=status]")
const state = document.querySelector("#state")

const localTimes = (within) => {
  for (const time of within.querySelectorAll("time:not([title])")) {
    const at = new Date(time.dateTime)
    if (isNaN(at)) continue
    time.title = time.textContent
    time.textContent = at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" })
  }
}

// The server escapes every text; the policy of the page forbids scripts in what is added.
const parsed = (html) => {
  const made = document.createElement("template")
  made.innerHTML = html
  localTimes(made.content)
  return made.content
}

const partsOf = (id) => document.getElementById(id).querySelector(".parts")

const showHead = ({ title, facts }) => {
  document.title = title
  document.querySelector("h1").textContent = title
  document.querySelector("#about").replaceChildren(parsed(facts))
}

const showState = (text, name) => {
  state.className = name
  state.textContent = text
}

const showNothing = () => {
  showState("", "")
  showHead({ title: "Shared conversation", facts: "" })
  main.replaceChildren()
}

const show = {
  head: showHead,
  clear: () => main.replaceChildren(),
  message: ({ html }) => main.append(parsed(html)),
  replace: ({ id, html }) => document.getElementById(id).replaceWith(parsed(html)),
  end: ({ id, html }) => document.getElementById(id).querySelector(".end").replaceChildren(parsed(html)),
  part: ({ id, part, html }) => {
    const parts = partsOf(id)
    const before = parts.children[part]
    const after = before ?? parts.appendChild(document.createElement("div"))
    const wasOpen = before?.querySelector(":scope > details")?.open
    after.className = "part"
    after.replaceChildren(parsed(html))
    if (wasOpen) after.querySelector(":scope > details")?.setAttribute("open", "")
  },
  text: ({ id, part, text }) => partsOf(id).children[part].querySelector(".text").append(text),
  over: ({ text }) => {
    source.close()
    showNothing()
    note.textContent = text
  },
}

const WHY = {
  404: "This link does not work any more: it was revoked.",
  410: "This link does not work any more: its time is over.",
}

let source
let delay = 0

// The stream was refused. The page itself says why, and a link that is over shows nothing any more.
const explain = async () => {
  const { status } = await fetch(location.pathname, { method: "HEAD" }).catch(() => ({ status: 503 }))
  if (status in WHY) {
    showNothing()
    note.textContent = WHY[status]
    return
  }
  if (isLive) note.textContent = "This conversation cannot be followed right now. This page tries again by itself."
  // A browser tries again only without an answer, and a server that is restarted may answer 503 for a while.
  delay = Math.min(Math.max(delay * 2, 5000), 600000)
  setTimeout(connect, delay * (0.75 + Math.random() / 2))
}

localTimes(document)
const isLive = document.currentScript.dataset.live === "yes"

// A frozen link is followed, too: its page shows nothing any more once the link is over.
const connect = () => {
  source = new EventSource(location.pathname.replace(/\/$/, "") + "/stream")
  source.onopen = () => {
    delay = 0
    if (isLive) showState("Live", "live")
    note.textContent = ""
  }
  source.onmessage = (event) => {
    const page = document.documentElement
    const isAtEnd = page.scrollHeight - page.scrollTop - page.clientHeight < 80
    for (const change of JSON.parse(event.data)) show[change.type]?.(change)
    if (isAtEnd) page.scrollTop = page.scrollHeight
  }
  source.onerror = () => {
    if (isLive) showState("Not connected", "")
    if (source.readyState === EventSource.CLOSED) explain()
  }
}

connect()
