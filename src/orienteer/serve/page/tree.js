// A search tree that an agent noted beside its step: {action, visits, value, prior, children: […]}.

import { el, number } from "./dom.js";

const SHOWN = 12; // children of a node, the most visited first

export function treeView(tree) {
  if (!tree || !Array.isArray(tree.children)) return null;
  return el(
    "details",
    { class: "tree" },
    el("summary", null, `Search tree (${tree.visits ?? "?"} visits)`),
    branches(tree, tree.visits || 1, 0),
  );
}

function branches(node, all, depth) {
  const children = [...node.children].sort((a, b) => b.visits - a.visits);
  return el(
    "ul",
    null,
    children.slice(0, SHOWN).map((child) => leaf(child, all, depth)),
    children.length > SHOWN ? el("li", { class: "none" }, `${children.length - SHOWN} more, less visited`) : null,
  );
}

function leaf(node, all, depth) {
  const line = [
    el("code", null, String(node.action)),
    el("span", { class: "tree-bar" }, el("span", { style: { width: `${Math.min(100, (100 * node.visits) / all)}%` } })),
    el("span", { class: "tree-facts" }, `${node.visits} visits`, fact("value", node.value), fact("prior", node.prior)),
  ];
  if (!node.children?.length || depth > 20) return el("li", { class: "tree-line" }, line);
  return el("li", null, el("details", { open: depth < 1 }, el("summary", { class: "tree-line" }, line), branches(node, all, depth + 1)));
}

const fact = (name, value) => (typeof value === "number" ? ` · ${name} ${number(value)}` : null);
