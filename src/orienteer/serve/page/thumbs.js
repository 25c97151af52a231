// Thumbs: whether a passage is relevant to a question. Kept on this server, to tune and to learn from.

import * as api from "./api.js";
import { button, el, say } from "./dom.js";

const given = new Map(); // "index question passage" → 1 or -1, as far as this page knows
const key = (index, question, passage) => JSON.stringify([index, question, passage]);

export const thumbOf = (index, question, passage) => given.get(key(index, question, passage)) ?? 0;

/** Keeps the thumb: 1 up, -1 down, 0 taken back. */
export async function keepThumb(index, question, passage, thumb) {
  await api.post("api/workshop/thumbs", { index, question, passage, thumb });
  given.set(key(index, question, passage), thumb);
  say({ 1: "Marked as relevant", "-1": "Marked as not relevant", 0: "Taken back" }[thumb]);
}

/** All thumbs of an index, from the server. */
export async function loadThumbs(index) {
  const found = await api.get(`api/workshop/thumbs?${new URLSearchParams({ index })}`);
  for (const { question, passage, thumb } of found) given.set(key(index, question, passage), thumb);
  return found;
}

/** Two buttons for a passage of a session. */
export function thumbs({ index, question }, passage, onError) {
  const make = (thumb, sign, name) => button(sign, async () => {
    try {
      await keepThumb(index, question, passage, thumbOf(index, question, passage) === thumb ? 0 : thumb);
      draw();
    } catch (error) {
      onError(error);
    }
  }, { class: "thumb", "aria-label": name, title: name, data: { thumb: String(thumb) } });
  const node = el("span", { class: "thumbs" }, make(1, "✓", "Relevant to the question"), make(-1, "✗", "Not relevant to the question"));
  const draw = () => {
    for (const each of node.children) each.setAttribute("aria-pressed", String(thumbOf(index, question, passage) === Number(each.dataset.thumb)));
  };
  draw();
  return node;
}
