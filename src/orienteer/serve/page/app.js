// Where the page begins: addresses, errors, keys, light and dark.

import * as api from "./api.js";
import { button, el, plural, say } from "./dom.js";
import * as views from "./views.js";
import { closeMenu } from "./words.js";
import { workshop } from "./workshop.js";

const page = document.getElementById("main");
const banner = document.getElementById("banner");
let about = null;
let panel = null;

// Errors: one banner, which says what to do.

function onError(error) {
  if (error instanceof api.Gone) {
    show(`${capital(error.message)}. What you see stays; the page tries again by itself.`, true);
    waitForServer();
  } else {
    show(capital(error.message));
  }
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function show(text, gone = false) {
  banner.replaceChildren(
    el("span", null, text),
    gone ? button("Try now", () => checkServer(), { id: "try-now" }) : button("Close", () => (banner.hidden = true), { class: "link" }),
  );
  banner.classList.toggle("gone", gone);
  banner.hidden = false;
}

let waiting = null;

function waitForServer() {
  waiting ??= setInterval(checkServer, 2000);
}

async function checkServer() {
  try {
    if (!(await fetch("health", { cache: "no-store" })).ok) return;
  } catch {
    return;
  }
  clearInterval(waiting);
  waiting = null;
  banner.hidden = true;
  say("The server is back");
  if (!about) begin();
}

// Addresses.

const helpers = {
  onError,
  /** What the server offers has changed: the same object gets the news. */
  async refresh() {
    Object.assign(about, await api.get("api/about"));
    sayAbout();
  },
  setAddress(address, go = false) {
    if (go) location.hash = address;
    else history.replaceState(null, "", address);
    mark();
  },
};

const ROUTES = [
  [/^#\/session\/([\w-]+)$/, "ask", (id) => views.ask(page, about, helpers, id)],
  [/^#\/compare\/([\w-]+)\/([\w-]+)$/, "compare", (a, b) => views.compare(page, about, helpers, [a, b])],
  [/^#\/compare$/, "compare", () => views.compare(page, about, helpers)],
  [/^#\/workshop$/, "workshop", () => workshop(page, about, helpers)],
  [/^#\/sessions$/, "sessions", () => views.sessions(page, about, helpers)],
  [/^#\/gallery$/, "gallery", () => views.gallery(page, about, helpers)],
  [/^(#\/?)?$/, "ask", () => views.ask(page, about, helpers)],
];

async function go() {
  closeMenu();
  panel?.stop();
  banner.hidden = !waiting;
  mark();
  for (const [pattern, , open] of ROUTES) {
    const found = pattern.exec(location.hash);
    if (!found) continue;
    try {
      panel = (await open(...found.slice(1))) ?? null;
    } catch (error) {
      onError(error);
    }
    return;
  }
}

function mark() {
  const view = ROUTES.find(([pattern]) => pattern.test(location.hash))?.[1];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

// Keys: never while something is typed.

const KEYS = [
  ["/", "to the question", () => document.getElementById("ask-question")?.focus()],
  ["j", "next step", () => panel?.choose(panel.chosen + 1, true)],
  ["k", "step before", () => panel?.choose(panel.chosen - 1, true)],
  ["r", "refine by hand", () => document.getElementById("own-term")?.focus()],
  ["u", "undo", () => document.getElementById("undo")?.click()],
  ["b", "branch", () => document.getElementById("branch")?.click()],
  ["h", "hand back to the agent", () => document.getElementById("hand-back")?.click()],
  ["s", "save", () => document.getElementById("save")?.click()],
  ["?", "these keys", () => showKeys()],
];

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, dialog, .menu")) return;
  const key = KEYS.find(([name]) => name === event.key);
  if (!key) return;
  event.preventDefault();
  key[2]();
});

function showKeys() {
  openDialog("Keys", el("dl", { class: "keys" }, KEYS.map(([key, what]) => el("div", null, el("dt", null, el("kbd", null, key)), el("dd", null, what)))));
}

function openDialog(title, ...content) {
  const dialog = el("dialog", { "aria-labelledby": "dialog-title", onclose: () => dialog.remove() },
    el("h2", { id: "dialog-title" }, title), ...content,
    el("form", { method: "dialog", class: "dialog-end" }, el("button", null, "Close")));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

api.onTokenNeeded((message) => new Promise((resolve) => {
  let given = null;
  const input = el("input", { id: "token", type: "password", autocomplete: "off" });
  const dialog = openDialog("A token is needed", el("p", null, capital(message ?? "")),
    el("form", { onsubmit: (event) => {
      event.preventDefault();
      given = input.value.trim() || null;
      dialog.close();
    } }, el("label", { for: "token" }, "Token "), input, " ", el("button", { class: "primary" }, "Go on")));
  dialog.addEventListener("close", () => resolve(given));
  input.focus();
}));

// Light and dark: the system's choice until a person makes one.

const THEME = "orienteer-theme";
function dress() {
  const chosen = localStorage.getItem(THEME);
  if (chosen) document.documentElement.dataset.theme = chosen;
}
document.getElementById("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  localStorage.setItem(THEME, dark ? "light" : "dark");
  dress();
});
document.getElementById("keys").addEventListener("click", showKeys);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  page.focus();
});

async function begin() {
  try {
    about = await api.get("api/about");
  } catch (error) {
    onError(error);
    return;
  }
  sayAbout();
  await go();
}

function sayAbout() {
  const size = about.indexes.reduce((sum, { passages }) => sum + (passages ?? 0), 0);
  document.getElementById("about").textContent = `${about.indexes.map(({ name }) => name).join(", ")}${size ? ` · ${plural(size, "passage")}` : ""}`;
}

dress();
api.takeTokenFromAddress();
addEventListener("hashchange", () => about && go());
begin();
