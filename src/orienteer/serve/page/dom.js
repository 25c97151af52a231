// Elements from data. Every text becomes a text node, so that retrieved text can never become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([key, text]) => node.style.setProperty(key, text));
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An element: el("p", {class: "note"}, "text", el("b", null, "more")). */
export const el = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** The same in SVG. */
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

export const button = (text, onclick, props = {}) => el("button", { type: "button", onclick, ...props }, text);

/** Tells a screen reader. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export const number = (value, digits = 2) => value.toFixed(digits);

export const signed = (value, digits = 3) => (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(digits);

export const plural = (count, one, many = one + "s") => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
