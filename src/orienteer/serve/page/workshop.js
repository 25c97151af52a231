// The workshop: search, mark what is relevant, and let the marks find a query, explain a miss, tune and teach.

import * as api from "./api.js";
import { button, el, plural, say } from "./dom.js";
import { QueryFinder } from "./query_finder.js";
import { keepThumb } from "./thumbs.js";
import { learning, tuning } from "./tuning.js";
import { whyNot } from "./why_not.js";

const SHOWN = 20;
const SNIPPET = 240; // characters

/** Which passages of an index are marked; kept while the browser's tab is open. */
class Marks {
  constructor(index) {
    this.place = `orienteer-marks-${index}`;
    this.rows = JSON.parse(sessionStorage.getItem(this.place) ?? "{}");
  }

  of = (id) => this.rows[id]?.mark ?? 0;
  ids = (mark) => Object.keys(this.rows).filter((id) => this.rows[id].mark === mark);
  title = (id) => this.rows[id]?.title || id;

  set(id, title, mark) {
    if (mark) this.rows[id] = { title, mark };
    else delete this.rows[id];
    sessionStorage.setItem(this.place, JSON.stringify(this.rows));
  }

  clear() {
    this.rows = {};
    sessionStorage.removeItem(this.place);
  }
}

export async function workshop(page, about, { onError }) {
  let marks = new Marks(about.indexes[0].name);
  let found = null;
  const index = el("select", { id: "workshop-index", "aria-label": "Index", onchange: () => {
    marks = new Marks(index.value);
    finder.reset();
    draw();
    if (query.value) search();
  } }, about.indexes.map(({ name }) => el("option", { value: name }, name)));
  index.hidden = about.indexes.length < 2;
  const query = el("input", { id: "workshop-query", type: "text", placeholder: "A query: words, +(contents:\"must\"), -(title:\"not\")", autocomplete: "off", maxlength: "2000", "aria-label": "Query" });
  const learned = el("input", { type: "checkbox", id: "workshop-learned", onchange: () => search() });
  const learnedLabel = el("label", { class: "field-label", hidden: true }, learned, "by the learned ranking");
  const list = el("ol", { class: "hits", "aria-label": "Found passages" });
  const explained = el("div", { class: "miss", id: "miss" });
  const count = el("p", { id: "mark-count", role: "status" });

  const search = async () => {
    if (!query.value.trim()) return query.focus();
    try {
      found = await api.post("api/search", { query: query.value, k: SHOWN, index: index.value, learned: learned.checked });
      explained.replaceChildren();
      draw();
      say(`${plural(found.hits.length, "passage")} found`);
    } catch (error) {
      onError(error);
    }
    return undefined;
  };
  const mark = async (hit, value) => {
    const now = marks.of(hit.id) === value ? 0 : value;
    marks.set(hit.id, hit.title, now);
    draw();
    list.querySelector(`[data-id="${CSS.escape(hit.id)}"] .mark.${value > 0 ? "yes" : "no"}`)?.focus();
    try {
      const question = found.query.question.trim();
      if (question) await keepThumb(index.value, question, hit.id, now);
    } catch (error) {
      onError(error);
    }
  };
  const explain = (id) => whyNot(explained, { query: query.value, passage: id, index: index.value, onError, apply: (text) => {
    query.value = text;
    return search();
  } });
  const row = (hit) => {
    const value = marks.of(hit.id);
    const choice = (sign, kind, name, own) => button(sign, () => mark(hit, own), { class: `mark ${kind}`, "aria-pressed": String(value === own), "aria-label": `${name}: ${hit.title || hit.id}`, title: name });
    return el("li", { class: `hit${value > 0 ? " relevant" : value < 0 ? " unwanted" : ""}`, data: { id: hit.id } },
      el("span", { class: "hit-rank" }, String(hit.rank)),
      el("div", null, el("h3", null, hit.title || "(no title)"), hit.source ? el("p", { class: "source" }, hit.source) : null,
        el("p", null, hit.text.length > SNIPPET ? `${hit.text.slice(0, SNIPPET)} …` : hit.text)),
      el("span", { class: "marks" }, choice("✓", "yes", "Relevant", 1), choice("✗", "no", "Not relevant", -1)),
      el("span", { class: "hit-actions" }, button("Why not higher?", () => explain(hit.id), { class: "link why-not" })));
  };
  const draw = () => {
    const [yes, no] = [marks.ids(1).length, marks.ids(-1).length];
    count.replaceChildren(el("b", null, String(yes)), " relevant, ", el("b", null, String(no)), " not relevant. ",
      yes + no ? button("Forget all marks", () => {
        marks.clear();
        finder.reset();
        draw();
      }, { class: "link" }) : "Mark found passages with ✓ and ✗; marks stay while you search on.");
    finder.ready(yes > 0);
    if (found) list.replaceChildren(...(found.hits.length ? found.hits.map(row) : [el("li", { class: "none" }, "Nothing is found.")]));
  };
  const finder = new QueryFinder({
    onError,
    request: () => ({ relevant: marks.ids(1), not_relevant: marks.ids(-1), index: index.value }),
    markOf: (id) => marks.of(id),
    use: (text) => {
      query.value = text;
      return search();
    },
  });
  const showLearned = (on) => {
    learnedLabel.hidden = !on;
    if (!on) learned.checked = false;
  };
  const byId = el("form", { class: "tool-buttons", onsubmit: (event) => {
    event.preventDefault();
    if (id.value.trim()) explain(id.value.trim());
  } }, el("label", { for: "workshop-id" }, "Why is this passage not found? "));
  const id = el("input", { id: "workshop-id", type: "text", placeholder: "id of a passage", autocomplete: "off" });
  byId.append(id, el("button", { type: "submit" }, "Explain"));

  page.classList.remove("has-session");
  page.replaceChildren(
    el("div", { class: "hero" },
      el("h1", null, "Workshop"),
      el("p", { class: "lead" }, "Mark what is relevant while you search. The marks find the shortest query for the set, explain a miss, tune the ranking and teach it."),
      el("form", { class: "ask", "aria-label": "Search", onsubmit: (event) => {
        event.preventDefault();
        search();
      } }, el("div", { class: "ask-line" }, query, el("button", { type: "submit", class: "primary" }, "Search")),
      el("div", { class: "ask-options" }, index, learnedLabel))),
    el("div", { class: "bench" },
      el("section", { "aria-label": "Search results" }, byId, explained, list),
      el("div", { class: "bench-side" },
        el("section", { class: "tool", "aria-labelledby": "finder-title" }, el("h2", { id: "finder-title" }, "The query for your marks"), count, finder.node),
        tuning({ onError, index: () => index.value }),
        learning({ onError, index: () => index.value, onSwitch: showLearned }))),
  );
  draw();
  query.focus();
  api.get(`api/workshop/learn?${new URLSearchParams({ index: index.value })}`).then(({ on }) => showLearned(on), onError);
}
