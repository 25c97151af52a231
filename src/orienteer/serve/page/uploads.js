// Files dropped on the page, or picked, become an index: sent in pieces, built by the server, watched as it grows.

import * as api from "./api.js";
import { button, el, plural, say } from "./dom.js";

const SHOWN = 50; // unreadable files

/** A place to drop files; onBuilt({index, passages, unreadable}) when the index can be asked. */
export function dropZone(about, { onBuilt, onError }) {
  if (!about.uploads) return null;
  const limits = about.uploads;
  const megabytes = (bytes) => `${Math.round(bytes / 2 ** 20).toLocaleString("en")} MB`;
  const picker = el("input", { type: "file", id: "own-files", multiple: true, class: "unseen", onchange: () => take([...picker.files].map((file) => [file.name, file])) });
  const state = el("div", { class: "upload-state", role: "status" });
  const zone = el(
    "section",
    { class: "drop", id: "drop", "aria-labelledby": "drop-title" },
    el("h2", { id: "drop-title" }, "Ask your own documents"),
    el("p", null, "Drop files or folders here, or ", picker, el("label", { for: "own-files", class: "button small" }, "choose files"),
      ". PDF, Word, EPUB, web pages, Markdown, text, tables."),
    el("p", { class: "none" }, `Up to ${limits.files.toLocaleString("en")} files of ${megabytes(limits.file_bytes)} each. They stay on this server${limits.kept ? "" : ", and are deleted when it ends"}.`),
    state,
  );
  let running = null;

  const over = (event) => {
    event.preventDefault();
    zone.classList.add("over");
  };
  zone.addEventListener("dragenter", over);
  zone.addEventListener("dragover", over);
  zone.addEventListener("dragleave", (event) => zone.contains(event.relatedTarget) || zone.classList.remove("over"));
  zone.addEventListener("drop", async (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = [...event.dataTransfer.files].map((file) => [file.name, file]);
    await take(entries.length ? (await Promise.all(entries.map(filesOf))).flat() : files);
  });

  /** files: [name, File] each; the name may have folders. */
  async function take(files) {
    if (!files.length || running) return;
    running = new AbortController();
    const bar = el("progress", { max: "1", value: "0", "aria-label": "Progress" });
    const line = el("span", null, "");
    state.replaceChildren(bar, line, button("Stop", () => running?.abort(), { class: "link", id: "stop-upload" }));
    const told = (share, text) => {
      bar.value = share;
      line.textContent = text;
    };
    try {
      const built = await send(files, told, running.signal);
      say(`The index is built: ${plural(built.passages, "passage")}`);
      state.replaceChildren(...summary(built));
      await onBuilt(built);
    } catch (error) {
      state.replaceChildren(error.name === "AbortError" ? "Stopped; nothing was kept." : el("p", { class: "problem" }, error.message));
      if (error instanceof api.Gone) onError(error);
    } finally {
      running = null;
      picker.value = "";
    }
  }
  return zone;
}

async function send(files, told, signal) {
  const begun = await api.post("api/uploads", { name: nameOf(files), files: files.map(([name, { size }]) => ({ name, size })) });
  const total = begun.files.reduce((sum, { size, reason }) => sum + (reason ? 0 : size), 0);
  let sent = 0;
  for (const [number, [, file]] of files.entries()) {
    if (begun.files[number].reason) continue;
    for (let offset = 0; offset < file.size; offset += begun.piece) {
      const piece = file.slice(offset, offset + begun.piece);
      await api.put(`api/uploads/${begun.id}/files/${number}?offset=${offset}`, piece, signal);
      sent += piece.size;
      told((0.5 * sent) / total, `sending ${begun.files[number].name}`);
    }
  }
  let built = null;
  await api.stream(`api/uploads/${begun.id}/build`, {}, (name, data) => {
    if (name === "end") built = data;
    else told(0.5 + (0.5 * data.number) / data.files, `reading ${data.file} (${data.number + 1} of ${data.files}), ${plural(data.passages, "passage")} so far`);
  }, signal);
  return built;
}

function summary({ index, passages, unreadable }) {
  return [
    el("p", { class: "built" }, el("b", null, index), ` is ready: ${plural(passages, "passage")}. Ask it above.`),
    unreadable.length
      ? el("details", { class: "unreadable", open: true }, el("summary", null, `${plural(unreadable.length, "file")} not read`),
          el("ul", null, unreadable.slice(0, SHOWN).map(({ file, reason }) => el("li", null, el("b", null, file), `: ${reason}`)),
            unreadable.length > SHOWN ? el("li", null, `and ${unreadable.length - SHOWN} more`) : null))
      : null,
  ].filter(Boolean);
}

/** The folder that all files share, or the first file's name. */
function nameOf(files) {
  const tops = new Set(files.map(([name]) => name.split("/")[0]));
  const [top] = tops;
  return tops.size === 1 && files[0][0].includes("/") ? top : files.length === 1 ? top.replace(/\.[^.]+$/, "") : "my documents";
}

async function filesOf(entry) {
  if (entry.isFile) return [[entry.fullPath.replace(/^\//, ""), await new Promise((done, failed) => entry.file(done, failed))]];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return found;
    for (const each of some) found.push(...(await filesOf(each)));
  }
}
