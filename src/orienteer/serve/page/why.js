// Why a passage came up: the share of each clause in its BM25 score, and how deep the question alone had it.

import { el, number } from "./dom.js";

const OCCUR = { must: ["+", "must"], should: ["", "or"], must_not: ["−", "not"] };

export function whyTable(why) {
  const most = Math.max(...why.shares.map((share) => share.score), 1e-9);
  const shares = why.shares.filter((share) => share.frequency).sort((a, b) => b.score - a.score);
  const absent = why.shares.filter((share) => !share.frequency);
  return el(
    "section",
    { class: "why", "aria-label": "Why this passage" },
    el(
      "p",
      { class: "ranks" },
      rank("this query", why.rank, why.deepest), " ", rank("the question alone", why.question_rank, why.deepest),
      why.matches && why.explained ? el("span", { class: "fact" }, "BM25 score ", el("b", null, number(why.score, 3))) : null,
    ),
    why.matches || !why.explained ? null : el("p", { class: "none" }, "The query at this step does not return this passage; an earlier one did."),
    why.explained && shares.length ? table(shares, most) : null,
    absent.length ? el("p", { class: "absent" }, "not in this passage: ", absent.map(clause).flatMap((each, i) => (i ? [", ", each] : [each]))) : null,
    why.explained ? null : el("p", { class: "none" }, "This engine does not split its scores."),
  );
}

function rank(whose, value, deepest) {
  return el("span", { class: "fact" }, `by ${whose} `, el("b", null, value === null ? `below ${deepest.toLocaleString("en")}` : `rank ${value}`));
}

const kindOf = (share) => (share.occur === "should" && share.boost !== 1 ? "boost" : OCCUR[share.occur][1]);

function clause(share) {
  const [sign] = OCCUR[share.occur];
  return el("span", { class: `clause ${kindOf(share)}` }, sign ? `${sign} ` : "", share.field === "title" ? el("i", null, "title ") : null, share.term);
}

function table(shares, most) {
  return el(
    "table",
    null,
    el("thead", null, el("tr", null, ["clause", "share", "", "times", "idf", "boost"].map((name, i) => el(i === 2 ? "td" : "th", { scope: i === 2 ? null : "col" }, name)))),
    el(
      "tbody",
      null,
      shares.map((share) => {
        return el(
          "tr",
          null,
          el("th", { scope: "row" }, clause(share)),
          el("td", { class: "n" }, number(share.score, 3)),
          el("td", { class: "bar" }, el("span", { class: kindOf(share), style: { width: `${(100 * share.score) / most}%` } })),
          el("td", { class: "n" }, String(share.frequency)),
          el("td", { class: "n" }, number(share.idf)),
          el("td", { class: "n" }, String(share.boost)),
        );
      }),
    ),
  );
}
