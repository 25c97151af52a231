// The best five after a step: ranks that move, the answer marked, PS, why each came up, and who was pushed out.

import * as api from "./api.js";
import { button, calm, el, number, plural } from "./dom.js";
import { openMenu, worded } from "./words.js";
import { copyCitation, openDocument } from "./sources.js";
import { thumbs } from "./thumbs.js";
import { title } from "./trail.js";
import { whyTable } from "./why.js";

const AROUND = 34; // words of a passage on either side of its answer, until the whole is asked for

export class Results {
  /** refine(refinement) is called when a word was chosen; onError(error) when something could not be had. */
  constructor({ refine, onError, note, isShared }) {
    Object.assign(this, { refine, onError, note, isShared });
    this.list = el("ol", { class: "best", "aria-label": "The best five passages" });
    this.pushed = el("div", { class: "pushed" });
    this.narrow = el("div", { class: "narrow", hidden: true });
    this.only = false;
    this.node = el("div", { class: "results" }, this.narrow, this.list, this.pushed);
    this.whole = new Set();
    this.explained = new Map();
    this.list.addEventListener("click", (event) => this.wordClicked(event));
  }

  show(session, chosen) {
    this.session = session;
    this.step = session.steps[chosen];
    const before = new Map([...this.list.children].map((card) => [card.dataset.id, card.getBoundingClientRect().top]));
    const previous = session.steps[chosen - 1]?.best ?? [];
    this.shown = this.narrowed();
    this.list.replaceChildren(...this.shown.map((id, i) => this.card(id, i, previous)));
    this.pushed.replaceChildren(...this.pushedOut());
    this.animate(before);
  }

  /** The best five; of all passages read those with every required word, where only these are wanted. */
  narrowed() {
    const required = this.step.query.refinements.filter(({ op }) => op === "+");
    this.narrow.hidden = !required.length;
    if (!required.length) return this.step.best;
    const read = Object.values(this.session.passages).filter(({ step }) => step <= this.step.number);
    const held = read.filter((passage) => required.every((each) => holds(passage, each)));
    const words = required.map(({ term }) => `+${term}`).join(" ");
    this.narrow.replaceChildren(
      el("label", null,
        el("input", { type: "checkbox", id: "only-required", checked: this.only, onchange: (event) => {
          this.only = event.target.checked;
          this.show(this.session, this.step.number);
          this.narrow.querySelector("input").focus();
        } }), ` only passages with ${words}`),
      el("span", { class: "none" }, `${held.length} of ${plural(read.length, "passage")} read`));
    if (!this.only) return this.step.best;
    return held.sort((a, b) => b.ps - a.ps).slice(0, 5).map(({ id }) => id);
  }

  /** From where each card was to where it is: the eye follows the ranks. */
  animate(before) {
    if (calm() || !before.size) return;
    for (const card of this.list.children) {
      const was = before.get(card.dataset.id);
      const easing = "cubic-bezier(.2,.7,.2,1)";
      if (was === undefined) {
        card.animate([{ opacity: 0, transform: "translateX(24px)" }, { opacity: 1, transform: "none" }], { duration: 420, easing });
      } else {
        const moved = was - card.getBoundingClientRect().top;
        if (Math.abs(moved) > 1) card.animate([{ transform: `translateY(${moved}px)` }, { transform: "none" }], { duration: 480, easing });
      }
    }
  }

  card(id, i, previous) {
    const passage = this.session.passages[id];
    const was = previous.indexOf(id);
    const fresh = this.step.number > 0 && was < 0;
    const explained = this.explained.get(this.key(id));
    const card = el(
      "li",
      { class: `card${fresh ? " fresh" : ""}`, data: { id } },
      el("div", { class: "rank" }, el("span", { class: "rank-number" }, String(i + 1)), moved(was, i, fresh)),
      el(
        "div",
        { class: "body" },
        el(
          "header",
          null,
          el("h3", null, passage.title ? worded(passage.title) : "(no title)"),
          el(
            "div",
            { class: "ps", title: "PS, the passage score: the reader's probability that this passage holds the answer. Of many passages with 0.7, seven in ten do." },
            el("span", { class: "ps-label" }, "PS"),
            meter(passage.ps),
            el("span", { class: "ps-number" }, number(passage.ps)),
          ),
        ),
        passage.source ? el("p", { class: "source" }, passage.source) : null,
        el("p", { class: "text" }, this.text(passage)),
        el("footer", null, this.facts(passage), this.actions(id, passage, explained)),
        explained ? whyTable(explained) : null,
      ),
    );
    return card;
  }

  text(passage) {
    const mark = passage.exact === null ? "unknown" : passage.exact ? "right" : "wrong";
    const { text, start, end } = passage;
    if (!passage.whole && !text) return el("span", { class: "none" }, "no text in this record");
    if (this.whole.has(passage.id)) return worded(text, { start, end, mark });
    const [from, to] = window_(text, start, end);
    return [
      from > 0 || !passage.whole ? "… " : null,
      worded(text.slice(from, to), { start: start - from, end: Math.min(end, to) - from, mark }),
      to < text.length || !passage.whole ? " …" : null,
    ];
  }

  facts(passage) {
    const facts = [passage.step === 0 ? "found by the question" : `found at step ${passage.step}`, `at rank ${passage.rank}`];
    return el(
      "span",
      { class: "facts" },
      facts.join(" "),
      passage.relevant === true ? el("span", { class: "badge good" }, "holds an answer") : null,
      this.isShared?.(passage.id) ? el("span", { class: "badge" }, "on both sides") : null,
    );
  }

  actions(id, passage, explained) {
    const [from, to] = window_(passage.text, passage.start, passage.end);
    const cut = from > 0 || to < passage.text.length || (!passage.whole && this.session.index);
    const shown = this.whole.has(id);
    return el(
      "span",
      { class: "card-actions" },
      cut ? button(shown ? "Less" : "Whole passage", () => this.toggle(id), { class: "link", "aria-expanded": String(shown) }) : null,
      this.session.index ? button("Open in its document", () => openDocument(this.session.index, passage, this.onError), { class: "link" }) : null,
      this.session.index && this.refine ? thumbs(this.session, id, this.onError) : null,
      button("Copy citation", (event) => copyCitation(passage, event.currentTarget), { class: "link" }),
      this.session.index
        ? button("Why this passage", () => this.explain(id), { class: "link why-button", "aria-expanded": String(Boolean(explained)) })
        : null,
    );
  }

  async toggle(id) {
    const passage = this.session.passages[id];
    if (!this.whole.delete(id)) {
      try {
        if (!passage.whole) complete(passage, await api.get(`api/passage?${new URLSearchParams({ id, index: this.session.index })}`));
        this.whole.add(id);
      } catch (error) {
        this.onError(error);
      }
    }
    this.again(id);
  }

  async explain(id) {
    const key = this.key(id);
    if (!this.explained.delete(key)) {
      try {
        this.explained.set(key, await api.post("api/why", { query: this.step.query.text, passage: id, index: this.session.index, where: this.session.where }));
      } catch (error) {
        this.onError(error);
      }
    }
    this.again(id, ".why-button");
  }

  /** One card drawn anew, the focus kept. */
  again(id, focus = ".link") {
    const at = this.shown.indexOf(id);
    const old = this.list.children[at];
    if (!old || old.dataset.id !== id) return;
    const card = this.card(id, at, this.session.steps[this.step.number - 1]?.best ?? []);
    old.replaceWith(card);
    card.querySelector(focus)?.focus();
  }

  key = (id) => `${id}\n${this.step.query.text}`;

  pushedOut() {
    if (!this.step.left.length) return [];
    return [
      el("h4", null, "Pushed out at this step"),
      el("ul", null, this.step.left.map((id) => {
        const passage = this.session.passages[id];
        return el("li", null, el("span", null, title(this.session, id)), el("span", { class: "ps-number" }, `PS ${number(passage.ps)}`));
      })),
    ];
  }

  wordClicked(event) {
    const word = event.target.closest(".w");
    if (!word || !this.refine || !this.session.playable || String(getSelection())) return;
    const field = word.closest("h3") ? "title" : "contents";
    openMenu(word, word.textContent, field, this.note?.(), (refinement) => this.refine(refinement));
  }
}

/** Whether a passage has a required term, word by word as the index does; a title's in the title. */
function holds({ title, text }, { field, term }) {
  const words = (value) => ` ${(value.toLowerCase().match(/[\p{L}\p{N}]+(?:['’.][\p{L}\p{N}]+)*/gu) ?? []).join(" ")} `;
  return words(field === "title" ? title : `${title} ${text}`).includes(words(term));
}

/** A record has a snippet; the index has the rest. The answer is found again by the snippet around it. */
function complete(passage, stored) {
  const base = stored.text.indexOf(passage.text);
  const start = base >= 0 ? base + passage.start : stored.text.indexOf(passage.answer);
  const end = start < 0 ? 0 : start + passage.end - passage.start;
  Object.assign(passage, { title: stored.title, text: stored.text, whole: true, start: Math.max(0, start), end });
}

export function meter(value) {
  return el("span", { class: "meter", "aria-hidden": "true" }, el("span", { style: { width: `${Math.round(100 * value)}%` } }));
}

function moved(was, i, fresh) {
  if (fresh) return el("span", { class: "moved new" }, "new");
  if (was < 0 || was === i) return null;
  const up = was > i;
  const told = `${up ? "up" : "down"} ${plural(Math.abs(was - i), "rank")}`;
  return el("span", { class: `moved ${up ? "up" : "down"}`, "aria-label": told, role: "img" }, `${up ? "▲" : "▼"}${Math.abs(was - i)}`);
}

/** Where to cut the text so that the answer stands in the middle. */
function window_(text, start, end) {
  const ends = [...text.matchAll(/\S+/g)].map((word) => [word.index, word.index + word[0].length]);
  if (ends.length <= 2 * AROUND + 12) return [0, text.length];
  const first = Math.max(0, ends.findIndex(([, to]) => to > start));
  const last = Math.max(first, ends.findLastIndex(([from]) => from < Math.max(end, start + 1)));
  const spare = Math.max(0, first + AROUND - ends.length + 1 + (last - first));
  const from = Math.max(0, first - AROUND - spare);
  const to = Math.min(ends.length - 1, last + AROUND + Math.max(0, AROUND - first));
  return [ends[from][0], ends[to][1]];
}
