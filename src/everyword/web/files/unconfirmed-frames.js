// Commands that the server has not confirmed. The server processes frames in order, so a command is confirmed by the
// reply to a method call that is sent directly after it: any reply will do, also that there is no such method.

export class UnconfirmedFrames {
  constructor() {
    this.said = new Map(); // request or mark → frames
  }

  question(request, frame) {
    const frames = [JSON.stringify(frame)];
    this.said.set(request, frames);
    return frames;
  }

  command(frame) {
    const mark = `mark-${randomId(8)}`;
    const call = { type: "rpc", id: mark, method: "everyword.mark", args: [] };
    const frames = [JSON.stringify(frame), JSON.stringify(call)];
    this.said.set(mark, frames);
    return [mark, frames];
  }

  confirm(key) {
    return this.said.delete(key);
  }

  frames() {
    return [...this.said.values()].flat();
  }
}

/** Calls of the agent's methods that have no answer yet. */
export class Calls {
  constructor() {
    this.open = new Map(); // id → {resolve, reject}
  }

  start(method, args, post) {
    const id = `call-${randomId(8)}`;
    return new Promise((resolve, reject) => {
      this.open.set(id, { resolve, reject });
      post({ type: "rpc", id, method, args });
    });
  }

  settle({ id, success, result, error, done = true }) {
    const call = this.open.get(id);
    if (!call || !done) return;
    this.open.delete(id);
    if (success) call.resolve(result);
    else call.reject(new Error(error));
  }

  lose() {
    for (const { reject } of this.open.values()) reject(new Error("the connection was lost"));
    this.open.clear();
  }
}

export function randomId(length = 16) {
  const letters = "0123456789abcdefghijklmnopqrstuvwxyz";
  return [...crypto.getRandomValues(new Uint8Array(length))].map((byte) => letters[byte % 36]).join("");
}
