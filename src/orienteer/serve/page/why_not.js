// Why a passage is not among the first hits, and the smallest edit with which it is, applied by one click.

import * as api from "./api.js";
import { button, el, number, plural, say } from "./dom.js";

const FIRST = 5; // hits that count as found

/** Fills `place`; apply(query) when an edit is chosen. */
export async function whyNot(place, { query, passage, index, apply, onError }) {
  if (!query.trim()) return onError(new Error("write a query first, then ask why it does not find a passage"));
  try {
    const told = await api.post("api/workshop/why-not", { query, passage, index, k: FIRST });
    place.replaceChildren(view(told, apply));
    place.querySelector("h2").focus();
    say(place.querySelector(".verdict").textContent);
  } catch (error) {
    onError(error);
  }
  return undefined;
}

function view(told, apply) {
  const name = (id) => told.titles[id] || id;
  const found = told.rank !== null && told.rank <= told.k;
  const verdict = found ? `It is found: rank ${told.rank}.` : told.rank === null ? "The query does not match it." : `It has rank ${told.rank.toLocaleString("en")}, below the first ${told.k}.`;
  return el("section", { class: "tool", "aria-label": "Why not found" },
    el("h2", { tabindex: "-1" }, `Why not “${name(told.passage)}”?`),
    el("p", { class: "verdict" }, verdict,
      told.blocked_by.length ? ` Kept out by ${told.blocked_by.join(", ")}.` : "", told.missing.length ? ` It lacks: ${told.missing.join(", ")}.` : ""),
    told.clauses.length && told.kth ? el("table", null,
      el("caption", { class: "unseen" }, "Scores by clause"),
      el("thead", null, el("tr", null, ["clause", "its score", `score of rank ${told.k}`].map((each) => el("th", { scope: "col" }, each)))),
      el("tbody", null, told.clauses.map((each) => el("tr", null, el("td", null, each.field === "title" ? `title: ${each.term}` : each.term),
        el("td", { class: "n" }, number(each.score)), el("td", { class: "n" }, number(each.kth_score)))))) : null,
    told.edits.length ? el("div", null,
      el("p", null, `The smallest edits that bring it into the first ${told.k}${told.complete ? "" : " (as far as time allowed)"}:`),
      told.edits.map((edit) => el("div", { class: "edit" },
        button("Apply", () => apply(edit.query), { class: "apply-edit", "aria-label": `Apply ${change(edit)}` }),
        el("code", null, change(edit)), el("span", { class: "none" }, `rank ${edit.rank}; ${edit.left.length ? `drives out ${edit.left.map(name).join(", ")}` : "drives nothing out"}`)))) : null,
    found ? null : el("p", { class: "soft" }, `${plural(told.tried, "edit")} tried.`));
}

const change = ({ dropped, added }) => [...dropped.map((each) => `drop ${each}`), ...added.map((each) => `add ${each}`)].join(", ");
