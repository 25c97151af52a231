// The best query for the marks: it grows while the server searches; its length is chosen with a slider.

import * as api from "./api.js";
import { chart } from "./charts.js";
import { button, el, number, plural, say } from "./dom.js";

const ROWS = 8; // passages in a list

export class QueryFinder {
  constructor({ onError, request, markOf, use }) {
    Object.assign(this, { onError, request, markOf, use, steps: [], chosen: 0, end: null });
    this.start = button("Find the query", () => this.run(), { class: "primary", id: "find-query", disabled: true });
    this.keep = el("input", { type: "checkbox", id: "hold-out" });
    this.view = el("div", { class: "found-query" });
    this.node = el("div", { class: "finder" },
      el("p", { class: "tool-buttons" }, this.start, el("label", { title: "Three in ten marked passages are kept from the search and judge its length" }, this.keep, " keep 30 % back as a test")), this.view);
  }

  ready(some) {
    this.start.disabled = !some || this.busy;
  }

  reset() {
    Object.assign(this, { steps: [], chosen: 0, end: null });
    this.view.replaceChildren();
  }

  async run() {
    this.reset();
    this.busy = true;
    this.start.disabled = true;
    try {
      await api.stream("api/workshop/find-query", { ...this.request(), holdout: this.keep.checked ? 0.3 : 0 }, (name, data) => {
        if (name === "found") {
          this.steps.push(data);
          this.chosen = this.steps.length - 1;
        } else if (name === "end") {
          this.end = data;
          const best = this.steps.findIndex(({ query }) => query.lucene === data.best.lucene);
          this.chosen = Math.max(0, best);
          say(`Found: ${data.best.boolean}`);
        }
        this.draw();
      });
    } catch (error) {
      this.onError(error);
    } finally {
      this.busy = false;
      this.start.disabled = false;
    }
  }

  choose(at) {
    this.chosen = at;
    this.draw();
  }

  draw() {
    const step = this.steps[this.chosen];
    if (!step) return;
    const { query } = step;
    const focused = document.activeElement?.id === "query-length";
    const lengths = this.steps.map(({ query: each }) => each.clauses.length);
    const points = this.steps.map(({ query: each }, i) => [lengths[i], each.f]);
    const held = this.steps.filter(({ query: each }) => each.held_out_recall !== null).map(({ query: each }) => [each.clauses.length, each.held_out_recall]);
    const slider = el("input", {
      type: "range", id: "query-length", min: "0", max: String(this.steps.length - 1), value: String(this.chosen), step: "1",
      "aria-valuetext": plural(query.clauses.length, "clause"), oninput: (event) => this.choose(Number(event.target.value)),
    });
    this.view.replaceChildren(
      chart({
        label: `F1 by number of clauses: ${points.map(([x, y]) => `${x}: ${number(y)}`).join(", ")}`,
        curves: [{ points }, ...(held.length ? [{ points: held, kind: "held" }] : [])], low: 0, high: 1, ticks: lengths,
        marks: points.map(([x, y], i) => [x, y, i === this.chosen, () => this.choose(i)]),
      }),
      el("p", { class: "soft" }, held.length ? "Line: F1 of the marks. Dashed: recall of the passages kept back." : "F1 of the marks, by number of clauses."),
      el("div", { class: "length" }, el("label", { for: "query-length" }, "Length"), slider, el("output", null, plural(query.clauses.length, "clause"))),
      el("p", { class: "boolean", id: "found-boolean" }, query.boolean),
      el("p", null, `F1 ${number(query.f)} · precision ${number(query.precision)} · recall ${number(query.recall)} · ${plural(query.matches, "match", "matches")}`,
        query.held_out_recall === null ? "" : ` · finds ${number(query.held_out_recall)} of those kept back`, query.rejected ? ` · ${plural(query.rejected, "unwanted")} among them` : ""),
      el("p", { class: "tool-buttons" },
        button("Search with it", () => this.use(query.lucene), { id: "use-query" }),
        copy("Copy for Lucene", query.lucene), copy("Copy for OpenSearch", JSON.stringify(query.opensearch, null, 2)), copy("Copy as Boolean", query.boolean)),
      this.moves(),
      this.end ? contributions(this.end, query) : el("p", { class: "busy" }, el("span", { class: "dots", "aria-hidden": "true" }), "searching longer queries"),
    );
    if (focused) slider.focus();
  }

  /** What this length brings in and drives out, beside the length before it. */
  moves() {
    const [now, before] = [this.steps[this.chosen], this.steps[this.chosen - 1]];
    const titles = { ...before?.titles, ...now.titles };
    const items = (ids) => el("ul", null, ids.length ? ids.slice(0, ROWS).map((id) => el("li", { class: this.markOf(id) > 0 ? "good" : this.markOf(id) < 0 ? "bad" : "" }, titles[id] || id)) : el("li", { class: "none" }, "none"),
      ids.length > ROWS ? el("li", { class: "none" }, `and ${ids.length - ROWS} more`) : null);
    const earlier = before?.hits ?? [];
    return el("div", { class: "moves" },
      el("div", null, el("h3", null, before ? "Enters the first 20" : "The first of it"), items(now.hits.filter((id) => !earlier.includes(id)))),
      el("div", null, el("h3", null, "Leaves the first 20"), items(earlier.filter((id) => !now.hits.includes(id)))),
      el("div", null, el("h3", null, "Relevant, but not matched"), items(now.missed)));
  }
}

function contributions({ best, contributions: rows, tried, seconds, complete }, shown) {
  const told = el("p", { class: "soft" }, `${tried.toLocaleString("en")} queries counted in ${number(seconds, 1)} s${complete ? "" : "; stopped by time"}.`);
  if (best.lucene !== shown.lucene) return told;
  return el("div", null, el("table", null,
    el("thead", null, el("tr", null, ["clause", "F1 without it", "relevant lost"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", null, rows.map(({ clause, loss, relevant_lost: lost }) => el("tr", null, el("td", null, clause), el("td", { class: "n" }, number(best.f - loss)), el("td", { class: "n" }, String(lost)))))), told);
}

function copy(name, text) {
  return button(name, async (event) => {
    const control = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text);
      control.textContent = "Copied";
    } catch {
      control.replaceWith(el("input", { type: "text", readonly: true, class: "citation", "aria-label": name, value: text }));
    }
  });
}
