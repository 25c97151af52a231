// Text whose words can be clicked, and the menu that turns a word into a refinement.

import { button, el } from "./dom.js";

const WORD = /[\p{L}\p{N}]+(?:['’][\p{L}\p{N}]+)*/gu;
const BOOSTS = [2, 4, 6, 8, 0.1];

/** Text nodes and word spans; what stands between start and end is the answer, in `mark`. */
export function worded(text, { start = 0, end = 0, mark = "unknown" } = {}) {
  if (end <= start) return words(text);
  return [
    words(text.slice(0, start)),
    el("mark", { class: `answer ${mark}`, title: `the reader's answer${MARKS[mark]}` }, words(text.slice(start, end))),
    words(text.slice(end)),
  ];
}

const MARKS = { right: ": right", wrong: ": not a known answer", unknown: "" };

function words(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(WORD)) {
    if (found.index > at) parts.push(text.slice(at, found.index));
    parts.push(el("span", { class: "w" }, found[0]));
    at = found.index + found[0].length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

let open = null;

/** Closes the menu; focus goes back to where it was opened from. */
export function closeMenu() {
  if (!open) return;
  const { menu, from } = open;
  open = null;
  menu.remove();
  document.querySelector(".w.chosen")?.classList.remove("chosen");
  from?.focus?.({ preventScroll: true });
}

/** The menu of a word: choose(refinement) is called with op, field, term, weight. */
export function openMenu(anchor, term, field, note, choose) {
  closeMenu();
  anchor.classList.add("chosen");
  let where = field;
  const take = (op, weight = 1) => () => {
    closeMenu();
    // A plain term has no field of its own; in the title it is a boost of 1.
    const plainInTitle = op === "or" && where === "title";
    choose({ op: plainInTitle ? "^" : op, field: where, term, weight });
  };
  const fields = ["contents", "title"].map((name) =>
    el(
      "label",
      null,
      el("input", { type: "radio", name: "menu-field", value: name, checked: name === field, onchange: () => (where = name) }),
      el("span", null, name === "contents" ? "anywhere" : "in the title"),
    ),
  );
  const menu = el(
    "div",
    { class: "menu", role: "dialog", "aria-label": `Refine with ${term}` },
    el("p", { class: "menu-term" }, term),
    note ? el("p", { class: "menu-note" }, note) : null,
    el("div", { class: "segments", role: "group", "aria-label": "Where" }, fields),
    el(
      "div",
      { class: "menu-ops" },
      button([el("b", { class: "sign" }, "+"), " require"], take("+"), { class: "op must", data: { op: "+" } }),
      button([el("b", { class: "sign" }, "−"), " exclude"], take("-"), { class: "op not", data: { op: "-" } }),
      button([el("b", { class: "sign" }, "or"), " add"], take("or"), { class: "op or", data: { op: "or" } }),
    ),
    el(
      "div",
      { class: "menu-boosts", role: "group", "aria-label": "Boost" },
      BOOSTS.map((weight) =>
        button(`^${String(weight).replace(/^0/, "")}`, take("^", weight), {
          class: "op boost", data: { op: "^", weight: String(weight) }, "aria-label": `boost by ${weight}`,
        }),
      ),
    ),
  );
  menu.addEventListener("keydown", (event) => walk(event, menu));
  document.body.append(menu);
  place(menu, anchor);
  open = { menu, from: document.activeElement };
  menu.querySelector(".op").focus({ preventScroll: true });
}

function walk(event, menu) {
  if (event.key === "Escape") {
    event.stopPropagation();
    closeMenu();
  }
  if (event.key === "Tab") {
    const all = [...menu.querySelectorAll("input:checked, button")];
    const last = event.shiftKey ? all[0] : all.at(-1);
    if (document.activeElement === last) {
      event.preventDefault();
      (event.shiftKey ? all.at(-1) : all[0]).focus();
    }
  }
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (!step || document.activeElement.type === "radio") return;
  event.preventDefault();
  const all = [...menu.querySelectorAll("button")];
  all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
}

function place(menu, anchor) {
  const word = anchor.getBoundingClientRect();
  const own = menu.getBoundingClientRect();
  const left = Math.max(8, Math.min(word.left, innerWidth - own.width - 8));
  const below = word.bottom + 6;
  const top = below + own.height < innerHeight ? below : Math.max(8, word.top - own.height - 6);
  menu.style.setProperty("left", `${left + scrollX}px`);
  menu.style.setProperty("top", `${top + scrollY}px`);
}

document.addEventListener("pointerdown", (event) => {
  if (open && !open.menu.contains(event.target)) closeMenu();
});
