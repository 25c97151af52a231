// The search tree behind an agent's step: nodes with label, visits, value, prior, children, taken. Walked by arrow keys.

import { el, number, plural } from "./dom.js";

/** What the agent did in the end is marked and unfolded. */
export function treeView(root, open = false) {
  const tree = el(
    "ul",
    { role: "tree", "aria-label": "Search tree" },
    root.children.map((child) => item(child, root.visits, 1)),
  );
  tree.querySelector("li")?.setAttribute("tabindex", "0");
  tree.addEventListener("keydown", (event) => walk(event, tree));
  tree.addEventListener("click", (event) => {
    const chosen = event.target.closest(".tree-line")?.parentElement;
    if (!chosen) return;
    toggle(chosen);
    focus(tree, chosen);
  });
  return el(
    "details",
    { class: "tree", open },
    el("summary", null, `Search tree: ${plural(root.visits, "visit")}`, fact("value", root.value)),
    tree,
    root.hidden ? el("p", { class: "none" }, `${root.hidden} more, visited less or never`) : null,
  );
}

function item(node, all, level) {
  const { taken } = node;
  return el(
    "li",
    {
      role: "treeitem", tabindex: "-1", class: taken ? "taken" : null, "aria-level": String(level),
      "aria-expanded": node.children.length ? String(taken) : null, "aria-label": told(node, taken),
    },
    el(
      "div",
      { class: "tree-line" },
      el("code", null, node.label),
      el("span", { class: "tree-bar" }, el("span", { style: { width: `${Math.min(100, (100 * node.visits) / Math.max(1, all))}%` } })),
      el("span", { class: "tree-facts" }, facts(node), taken ? el("span", { class: "badge good" }, "taken") : null),
    ),
    node.children.length ? el("ul", { role: "group" }, node.children.map((child) => item(child, all, level + 1))) : null,
  );
}

const fact = (name, value) => (value === null ? "" : ` · ${name} ${number(value)}`);
const facts = (node) =>
  `${plural(node.visits, "visit")}${fact("value", node.value)}${fact("prior", node.prior)}${node.hidden ? ` · ${node.hidden} not shown` : ""} `;
const told = (node, taken) => `${node.label}, ${facts(node).trim()}${taken ? ", taken" : ""}`;

const isOpen = (node) => node.getAttribute("aria-expanded") === "true";

function toggle(node, open = !isOpen(node)) {
  if (node.hasAttribute("aria-expanded")) node.setAttribute("aria-expanded", String(open));
}

/** One node of the tree can be reached by Tab, the others from it. */
function focus(tree, node) {
  tree.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
  node.setAttribute("tabindex", "0");
  node.focus();
}

function walk(event, tree) {
  const node = event.target.closest("li");
  if (!node) return;
  const seen = [...tree.querySelectorAll("li")].filter((each) => !each.parentElement.closest("li[aria-expanded='false']"));
  const at = seen.indexOf(node);
  const go = {
    ArrowDown: () => seen[at + 1],
    ArrowUp: () => seen[at - 1],
    ArrowRight: () => (isOpen(node) ? node.querySelector("li") : toggle(node, true)),
    ArrowLeft: () => (isOpen(node) ? toggle(node, false) : node.parentElement.closest("li")),
    Home: () => seen[0],
    End: () => seen.at(-1),
    Enter: () => toggle(node),
    " ": () => toggle(node),
  }[event.key];
  if (!go) return;
  event.preventDefault();
  event.stopPropagation();
  const next = go();
  if (next) focus(tree, next);
}
