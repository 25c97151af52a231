// The server's API: JSON in and out, and sessions streamed step by step.

/** The server refused: `message` says why and how to mend it. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.message ?? `the server answered ${status}`);
    this.status = status;
    this.kind = problem.kind;
  }
}

/** The server does not answer, or went away in the middle. */
export class Gone extends Error {}

const TOKEN = "orienteer-token";
let askForToken = async () => null;

export const onTokenNeeded = (ask) => (askForToken = ask);

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body ?? {});
export const remove = (path) => call("DELETE", path);

export async function call(method, path, body) {
  const response = await send(method, path, body, "application/json");
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch {
    throw new Gone("the server went away in the middle of its answer");
  }
}

/** The answer as it is, for a file. */
export const text = async (path) => (await send("GET", path, undefined, "*/*")).text();
export const blob = async (path) => (await send("GET", path, undefined, "*/*")).blob();

/** Sends bytes. */
export const put = async (path, bytes, signal) => (await send("PUT", path, bytes, "application/json", signal)).json();

export const hasToken = () => Boolean(sessionStorage.getItem(TOKEN));

/** Posts and calls onEvent(name, data) for each event; returns when the server has said `end`. */
export async function stream(path, body, onEvent, signal) {
  const response = await send("POST", path, body, "text/event-stream", signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let ended = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (text + value).split("\n\n");
      text = parts.pop();
      for (const part of parts) {
        const event = parsed(part);
        if (!event) continue;
        if (event.name === "error") throw new Refused(200, event.data);
        ended ||= event.name === "end";
        onEvent(event.name, event.data);
      }
    }
  } catch (error) {
    if (error instanceof Refused || error.name === "AbortError") throw error;
    throw new Gone("the server went away in the middle of the session");
  }
  if (!ended) throw new Gone("the server went away in the middle of the session");
}

function parsed(part) {
  const name = /^event: (.*)$/m.exec(part);
  const data = /^data: (.*)$/m.exec(part);
  return name && data ? { name: name[1], data: JSON.parse(data[1]) } : null;
}

async function send(method, path, body, accept, signal) {
  const headers = { accept };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.authorization = `Bearer ${token}`;
  const raw = body instanceof Blob;
  if (body !== undefined) headers["content-type"] = raw ? "application/octet-stream" : "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined || raw ? body : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Gone("the server does not answer");
  }
  if (response.ok) return response;
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // An answer without a reason is told by its number.
  }
  if (response.status === 401) {
    const given = await askForToken(problem.message);
    if (given) {
      sessionStorage.setItem(TOKEN, given);
      return send(method, path, body, accept, signal);
    }
  }
  throw new Refused(response.status, problem);
}

/** A token in the address (#token=…) is taken and hidden again. */
export function takeTokenFromAddress() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(TOKEN, decodeURIComponent(found[1]));
  history.replaceState(null, "", location.pathname + "#/");
}
