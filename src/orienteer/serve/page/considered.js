// What an agent considered beside what it did: notes with `likeliest`, pairs of an action and its probability.

import { el, number } from "./dom.js";

export function consideredView(notes, open = false) {
  const pairs = (Array.isArray(notes?.likeliest) ? notes.likeliest : []).filter(
    (pair) => Array.isArray(pair) && typeof pair[0] === "string" && typeof pair[1] === "number",
  );
  if (!pairs.length) return null;
  return el(
    "details",
    { class: "tree considered", open },
    el("summary", null, "What the agent considered", fact("stop", notes.stop), fact("gain expected", notes.gain)),
    el(
      "ul",
      null,
      pairs.map(([action, probability]) =>
        el(
          "li",
          null,
          el(
            "div",
            { class: "tree-line" },
            el("code", null, action),
            el("span", { class: "tree-bar" }, el("span", { style: { width: `${Math.max(0, Math.min(100, 100 * probability))}%` } })),
            el("span", { class: "tree-facts" }, number(probability)),
          ),
        ),
      ),
    ),
  );
}

const fact = (name, value) => (typeof value === "number" ? ` · ${name} ${number(value)}` : "");
