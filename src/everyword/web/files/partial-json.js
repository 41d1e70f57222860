// Parses JSON that is not complete yet: returns as much of it as is complete.

export function readPartial(text) {
  const whole = read(text);
  return whole === undefined ? read(closed(text)) : whole;
}

function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const LITERALS = ["true", "false", "null"];

/** Cut what cannot be kept, and close what is open. */
function closed(text) {
  const open = []; // what closes each level
  let keep = 0; // how much of the text can be kept
  let closers = "";
  let wantsKey = false;
  const mark = (end) => { keep = end; closers = [...open].reverse().join(""); };
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') {
      const { end, usable } = stringFrom(text, at);
      const isKey = wantsKey && open.at(-1) === "}";
      if (end === -1) {
        if (!isKey) { mark(usable); closers = `"${closers}`; }
        return text.slice(0, keep) + closers;
      }
      at = end;
      if (isKey) wantsKey = false;
      else mark(at + 1);
    } else if (character === "{" || character === "[") {
      open.push(character === "{" ? "}" : "]");
      wantsKey = character === "{";
      mark(at + 1);
    } else if (character === "}" || character === "]") {
      open.pop();
      mark(at + 1);
    } else if (character === ",") {
      wantsKey = open.at(-1) === "}";
    } else if (/[-\d]/.test(character)) {
      const [number] = /^-?\d*(\.\d+)?([eE][-+]?\d+)?/.exec(text.slice(at));
      if (number && number !== "-") mark(at + number.length);
      while (/[-+.\deE]/.test(text[at + 1] ?? "")) at += 1;
    } else if (/[a-z]/.test(character)) {
      const [word] = /^[a-z]+/.exec(text.slice(at));
      const literal = LITERALS.find((each) => each.startsWith(word));
      if (!literal) return text.slice(0, keep) + closers;
      at += word.length - 1;
      if (at === text.length - 1) return text.slice(0, at + 1) + literal.slice(word.length) + [...open].reverse().join("");
      mark(at + 1);
    }
  }
  return text.slice(0, keep) + closers;
}

/** Where the string that begins at `at` ends, or -1, and up to where it can be used when it is cut there. */
function stringFrom(text, at) {
  let place = at + 1;
  while (place < text.length) {
    if (text[place] === '"') return { end: place, usable: place };
    const length = text[place] !== "\\" ? 1 : text[place + 1] === "u" ? 6 : 2;
    if (place + length > text.length) return { end: -1, usable: place };
    place += length;
  }
  return { end: -1, usable: text.length };
}
