// A query as words and coloured chips, one an operator.

import { el } from "./dom.js";

const KINDS = { or: "or", "+": "must", "-": "not", "^": "boost" };
const SAID = { or: "add", "+": "must have", "-": "must not have", "^": "boost" };

export const sign = ({ op, weight }) => (op === "or" ? "or" : op === "-" ? "−" : op === "^" ? `^${plainWeight(weight)}` : op);

export function plainWeight(weight) {
  return String(weight).replace(/^0\./, ".");
}

/** One refinement; `fresh` is the one that the step made. */
export function chip(refinement, fresh = false) {
  const said = `${SAID[refinement.op]}${refinement.op === "^" ? ` ${refinement.weight}` : ""}`;
  return el(
    "span",
    { class: `chip ${KINDS[refinement.op]}${fresh ? " fresh" : ""}`, title: refinement.text },
    el("span", { class: "sign", "aria-hidden": "true" }, sign(refinement)),
    el("span", { class: "unseen" }, `${said} `),
    refinement.field === "title" ? el("span", { class: "field" }, "title ") : null,
    el("span", { class: "term" }, refinement.term),
  );
}

/** The whole query. */
export function queryLine(query, newest) {
  return el(
    "p",
    { class: "query", "aria-label": "The query" },
    el("span", { class: "words" }, query.question),
    query.refinements.map((each) => [" ", chip(each, newest && each.text === newest.text)]),
  );
}
