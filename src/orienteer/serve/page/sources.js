// Where a passage comes from: its document as text with the passage marked, and a citation to copy.

import * as api from "./api.js";
import { el, say } from "./dom.js";

/** A dialog with the passage among its neighbours, scrolled to it; the answer is marked in it. */
export async function openDocument(index, passage, onError) {
  try {
    const found = await api.get(`api/document?${new URLSearchParams({ id: passage.id, index })}`);
    const here = (each) => each.id === passage.id;
    const page = found.pdf ? await pdfPage(index, passage.id, found.passages.find(here).metadata, onError) : null;
    const dialog = el(
      "dialog",
      { class: `document${page ? " with-page" : ""}`, "aria-labelledby": "document-title", onclose: () => dialog.remove() },
      el("h2", { id: "document-title" }, passage.source || found.document || passage.title || passage.id),
      el("div", { class: "document-columns" }, page, el(
        "div",
        { class: "document-text", tabindex: "0", role: "region", "aria-label": "The document around the passage" },
        found.passages.map((each) =>
          el("section", { class: here(each) ? "here" : null }, el("h3", null, each.title || "(no title)"), el("p", null, here(each) ? marked(each.text, passage) : each.text)),
        ),
      )),
      el("form", { method: "dialog", class: "dialog-end" }, el("button", null, "Close")),
    );
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector(".here")?.scrollIntoView({ block: "center" });
  } catch (error) {
    onError(error);
  }
}

/** The page as the server draws it, or both where the passage goes on over its end, the passage marked, and a link
 * to the file at this page. */
async function pdfPage(index, id, { page: number, last_page: last }, onError) {
  const pages = last ? `Pages ${number} and ${last}` : `Page ${number}`;
  const query = new URLSearchParams({ id, index });
  const picture = el("img", { class: "pdf-page", alt: `${pages}, the passage marked` });
  picture.src = await dataAddress(await api.blob(`api/source/page?${query}`));
  const open = el("a", {
    href: `api/source/file?${query}#page=${number}`, target: "_blank", rel: "noopener",
    onclick: async (event) => {
      if (!api.hasToken()) return; // a link sends no token, so the file is fetched with it
      event.preventDefault();
      try {
        window.open(`${URL.createObjectURL(await api.blob(`api/source/file?${query}`))}#page=${number}`, "_blank", "noopener");
      } catch (error) {
        onError(error);
      }
    },
  }, `Open the PDF at page ${number}`);
  return el("figure", { class: "pdf", tabindex: "0", role: "region", "aria-label": pages }, el("figcaption", null, open), picture);
}

/** Pictures come from this host or stand in the page itself; the security policy allows nothing else. */
const dataAddress = (blob) => new Promise((done) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result);
  reader.readAsDataURL(blob);
});

/** The passage's answer in its whole text; a record's place is that of its snippet, so it is looked for. */
function marked(text, { answer, start, end, whole }) {
  const at = whole ? start : text.indexOf(answer);
  const to = whole ? end : at + answer.length;
  if (at < 0 || to <= at) return text;
  return [text.slice(0, at), el("mark", { class: "answer unknown" }, text.slice(at, to)), text.slice(to)];
}

/** “words around the answer” (title, file, page), as one line in the clipboard. */
export function citation({ title, text, source, id, start, end }) {
  const from = Math.max(0, text.lastIndexOf(". ", start) + 1);
  const stop = text.indexOf(". ", Math.max(end, start));
  const quote = text.slice(from, stop < 0 ? text.length : stop + 1).trim().replace(/\s+/g, " ");
  return `“${quote}” (${[title, source || id].filter(Boolean).join(", ")})`;
}

export async function copyCitation(passage, control) {
  const line = citation(passage);
  try {
    await navigator.clipboard.writeText(line);
    say("Citation copied");
    control.textContent = "Copied";
  } catch {
    // No clipboard without a secure page: the line is shown, to be copied by hand.
    control.replaceWith(el("input", { type: "text", readonly: true, class: "citation", "aria-label": "Citation", value: line, onfocus: (event) => event.target.select() }));
  }
}
