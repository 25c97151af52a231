// One session on the page: its query, its trail, its best five, and what can be done with it.

import * as api from "./api.js";
import { queryLine } from "./chips.js";
import { consideredView } from "./considered.js";
import { button, el, number, plural, say } from "./dom.js";
import { Results } from "./results.js";
import { scoreLine, scoreOf, trail } from "./trail.js";
import { treeView } from "./tree.js";

const ENDINGS = {
  steps: "all steps taken", stop: "the agent stopped", "dead end": "a query found nothing", "no hits": "the question found nothing",
  illegal: "the agent did what it may not", error: "the agent failed", deadline: "stopped at the deadline; hand back to go on",
};

export class Panel {
  /**
   * options.compact   without the tools, for two side by side
   * options.onError   what to do with an error
   * options.onOpen    called with a session's id when another session takes this one's place
   */
  constructor(options) {
    this.options = options;
    this.session = null;
    this.chosen = 0;
    this.follow = true;
    this.running = null;
    this.query = el("div", { class: "query-place" });
    this.tools = el("div", { class: "tools" });
    this.side = el("div", { class: "side" });
    this.head = el("div", { class: "outcome" });
    this.thoughts = el("div", { class: "thoughts" });
    this.results = new Results({
      refine: options.compact ? null : (refinement) => this.refine(refinement),
      note: () => (this.isLast() ? null : `starts a branch from step ${this.chosen}`),
      isShared: options.isShared,
      onError: options.onError,
    });
    this.node = el(
      "article",
      { class: `panel${options.compact ? " compact" : ""}`, hidden: true },
      this.query, this.tools,
      el("div", { class: "columns" }, this.side, el("div", { class: "main-column" }, this.head, this.results.node, this.thoughts)),
    );
  }

  /** Lets an agent search, and shows each step as it comes. */
  run(path, body) {
    this.finished = this.watch(path, body);
    return this.finished;
  }

  async watch(path, body) {
    const controller = new AbortController();
    this.running = controller;
    this.follow = true;
    this.draw();
    try {
      await api.stream(path, body, (name, data) => this.took(name, data), controller.signal);
      say(`Done. ${this.session.answer ? `Answer: ${this.session.answer}` : "No answer"}`);
    } catch (error) {
      if (error.name !== "AbortError") this.options.onError(error);
      else await this.reload();
    } finally {
      this.running = null;
      this.draw();
    }
  }

  took(name, data) {
    if (name === "session") {
      const known = this.session?.id === data.id;
      this.session = { steps: [], passages: {}, ...(known ? this.session : {}), ...data };
      this.options.onOpen?.(data.id);
    } else if (name === "step") {
      Object.assign(this.session.passages, data.passages);
      this.session.steps.push(data.step);
      this.session.queries += /^(undo$|read )/.test(data.step.action ?? "") ? 0 : 1;
      this.session.passages_read = Object.keys(this.session.passages).length;
      this.session.seconds += data.step.seconds;
      if (this.follow) this.chosen = data.step.number;
      say(`Step ${data.step.number}: ${data.step.action ?? "the question"}`);
    } else if (name === "end") {
      Object.assign(this.session, data);
    }
    this.draw();
  }

  show(session, chosen = session.steps.length - 1) {
    this.session = session;
    this.chosen = Math.max(0, Math.min(chosen, session.steps.length - 1));
    this.draw();
  }

  clear() {
    this.stop();
    this.session = null;
    this.chosen = 0;
    this.results.list.replaceChildren();
    this.node.hidden = true;
  }

  stop() {
    this.running?.abort();
  }

  isLast() {
    return !this.session || this.chosen === this.session.steps.length - 1;
  }

  choose(step, focus = false) {
    if (!this.session?.steps[step]) return;
    this.chosen = step;
    this.follow = this.isLast();
    this.draw();
    const item = this.side.querySelector(`[data-step="${step}"]`);
    if (focus) item?.focus({ preventScroll: true });
  }

  // What a person can do: each call gives the session as it then is.

  async act(call, told) {
    try {
      this.show(await call());
      say(told);
      return true;
    } catch (error) {
      this.options.onError(error);
      return false;
    }
  }

  /** Who refines while the agent is at work takes over from it. */
  async refine(refinement) {
    if (this.running) {
      this.stop();
      await this.finished;
    }
    if (!this.isLast() && !(await this.branch())) return;
    await this.act(() => whenFree(() => api.post(`api/sessions/${this.session.id}/refine`, refinement)), `Refined with ${refinement.term}`);
  }

  undo = () => this.act(() => api.post(`api/sessions/${this.session.id}/undo`), "Taken back");

  async branch() {
    const done = await this.act(() => api.post(`api/sessions/${this.session.id}/branch`, { step: this.chosen }), "A new branch");
    if (done) this.options.onOpen?.(this.session.id);
    return done;
  }

  async save() {
    await this.act(() => api.post(`api/sessions/${this.session.id}/save`), "Saved");
  }

  async share() {
    try {
      const record = await api.text(`api/sessions/${this.session.id}/file`);
      const link = el("a", {
        href: URL.createObjectURL(new Blob([record], { type: "application/jsonl" })),
        download: `session-${this.session.id}.jsonl`,
      });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
      say("The session's file is downloaded");
    } catch (error) {
      this.options.onError(error);
    }
  }

  handBack() {
    const steps = Number(this.tools.querySelector("#more-steps")?.value) || 5;
    if (!this.isLast()) this.choose(this.session.steps.length - 1);
    return this.run(`api/sessions/${this.session.id}/agent`, { steps, agent: this.options.agent?.() || null });
  }

  async reload() {
    if (!this.session?.id) return;
    try {
      this.show(await api.get(`api/sessions/${this.session.id}`));
    } catch (error) {
      this.options.onError(error);
    }
  }

  // Drawing.

  draw() {
    const { session } = this;
    this.node.hidden = !session;
    this.node.setAttribute("aria-busy", String(Boolean(this.running)));
    if (!session) return;
    const step = session.steps[this.chosen];
    this.query.replaceChildren(step ? queryLine(step.query, step.refinement) : el("p", { class: "query" }, el("span", { class: "words" }, session.question)));
    if (!this.options.compact) this.drawTools();
    this.drawSide();
    this.head.replaceChildren(...this.outcome(step));
    if (step) this.results.show(session, this.chosen);
    this.drawThoughts(step);
    this.options.onDraw?.();
  }

  drawTools() {
    const { session } = this;
    const busy = Boolean(this.running);
    const ready = session.playable && session.steps.length > 0;
    const idle = !busy && ready;
    const undoable = idle && session.steps.at(-1).query.refinements.length > 0;
    // Drawn anew only where something differs: a button must not be exchanged between press and release.
    const state = JSON.stringify([session.id, busy, ready, undoable, session.saved, session.playable, session.steps.length > 0]);
    if (this.tools.dataset.state === state) return;
    this.tools.dataset.state = state;
    const more = this.tools.querySelector("#more-steps")?.value ?? "5";
    const focused = this.tools.contains(document.activeElement) ? document.activeElement.id : null;
    const typed = this.tools.querySelector("#own-term")?.value ?? "";
    const chosen = ["own-op", "own-field"].map((id) => this.tools.querySelector(`#${id}`)?.value);
    this.tools.replaceChildren(
      el(
        "div",
        { class: "tool-row" },
        busy
          ? button("Stop", () => this.stop(), { class: "primary", id: "stop" })
          : button("↶ Undo", () => this.undo(), { id: "undo", title: "Take the last refinement back (u)", disabled: !undoable }),
        button("Branch", () => this.branch(), { id: "branch", title: "A new session from the step that is chosen (b)", disabled: !idle }),
        el(
          "span",
          { class: "joined" },
          button("Hand back to the agent", () => this.handBack(), { id: "hand-back", title: "The agent goes on (h)", disabled: !idle }),
          el("label", { class: "unseen", for: "more-steps" }, "Steps"),
          el("input", { id: "more-steps", type: "number", min: "1", max: "50", value: more, disabled: !idle, title: "how many steps" }),
        ),
        el("span", { class: "gap" }),
        button(session.saved ? "✓ Saved" : "Save", () => this.save(), { id: "save", title: "Keep it on the server's disk (s)", disabled: busy || !session.steps.length }),
        button("Share", () => this.share(), { id: "share", title: "Download it as a file", disabled: busy || !session.steps.length }),
      ),
      session.playable ? this.ownRefinement(ready, typed, chosen) : el("p", { class: "none" }, "Played on another index or by another reader: it can be looked at, not continued."),
    );
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  /** The same as a click on a word, for the keyboard, and for words that no passage shows. */
  ownRefinement(ready, typed, [op = "+", field = "contents"]) {
    const option = (value, text, chosen) => el("option", { value, selected: value === chosen }, text);
    return el(
      "form",
      {
        class: "own", "aria-label": "Refine by hand",
        onsubmit: (event) => {
          event.preventDefault();
          const form = event.currentTarget;
          const [kind, weight] = form.querySelector("#own-op").value.split(" ");
          const term = form.querySelector("#own-term").value.trim();
          if (!term) return;
          const where = form.querySelector("#own-field").value;
          form.querySelector("#own-term").value = "";
          this.refine({ op: kind === "or" && where === "title" ? "^" : kind, field: where, term, weight: Number(weight ?? 1) });
        },
      },
      el("span", { class: "own-label" }, "Refine"),
      el("label", { class: "unseen", for: "own-op" }, "Operator"),
      el("select", { id: "own-op", disabled: !ready }, option("+", "+ require", op), option("-", "− exclude", op), option("or", "or add", op),
        ["2", "4", "6", "8", "0.1"].map((weight) => option(`^ ${weight}`, `^${weight.replace(/^0/, "")} boost`, op))),
      el("label", { class: "unseen", for: "own-field" }, "Field"),
      el("select", { id: "own-field", disabled: !ready }, option("contents", "anywhere", field), option("title", "in the title", field)),
      el("label", { class: "unseen", for: "own-term" }, "Term"),
      el("input", { id: "own-term", type: "text", placeholder: "a word, or click one below", maxlength: "256", autocomplete: "off", value: typed, disabled: !ready }),
      el("button", { type: "submit", disabled: !ready }, "Apply"),
    );
  }

  drawSide() {
    const focused = this.side.contains(document.activeElement);
    this.side.replaceChildren(
      ...[
        scoreLine(this.session, this.chosen),
        trail(this.session, this.chosen, (step, focus) => this.choose(step, focus)),
        this.running ? el("p", { class: "busy" }, el("span", { class: "dots", "aria-hidden": "true" }), "searching") : null,
        this.cost(),
      ].filter(Boolean),
    );
    const current = this.side.querySelector("[aria-current]");
    if (focused) current?.focus({ preventScroll: true });
    // On a narrow screen the trail is a strip: the chosen step is brought into it.
    const strip = this.side.querySelector(".trail");
    if (current && strip.scrollWidth > strip.clientWidth) strip.scrollLeft = current.parentElement.offsetLeft - strip.clientWidth / 3;
  }

  /** How the agent came to its step. Drawn anew only for another one, so that what was unfolded stays so. */
  drawThoughts(step) {
    if (this.thoughtsOf === step) return;
    this.thoughtsOf = step;
    const open = Boolean(this.thoughts.querySelector("details")?.open);
    const shown = [step?.tree ? treeView(step.tree, open) : null, consideredView(step?.notes, open)];
    this.thoughts.replaceChildren(...shown.filter(Boolean));
  }

  cost() {
    const { session } = this;
    const how = ENDINGS[session.stopped ?? session.ended];
    return el(
      "dl",
      { class: "cost" },
      pair("agent", session.agent),
      session.where ? pair("filter", session.where) : null,
      pair("queries", session.queries.toLocaleString("en")),
      pair("passages read", session.passages_read.toLocaleString("en")),
      session.seconds ? pair("time", `${number(session.seconds, session.seconds < 10 ? 2 : 0)} s`) : null,
      how && !this.running ? pair("end", how) : null,
    );
  }

  outcome(step) {
    const { session } = this;
    const parts = [];
    if (session.error) parts.push(el("p", { class: "problem" }, session.error));
    if (!step) {
      if (this.running) parts.push(el("p", { class: "busy" }, el("span", { class: "dots", "aria-hidden": "true" }), "searching"));
      return parts;
    }
    const first = session.passages[step.best[0]];
    const sure = step.confidence;
    const declined = sure && !sure.answered;
    const answer = first?.answer;
    const mark = !first || first.exact === null ? "unknown" : first.exact ? "right" : "wrong";
    parts.push(
      el(
        "div",
        { class: "answer-row" },
        el("div", { class: "the-answer" }, el("span", { class: "label" }, declined ? "Best guess" : "Answer"), el("strong", { class: `answer ${mark}${declined ? " guess" : ""}` }, answer || "none found"),
          sure && !declined ? el("span", { class: "sure", title: SURE }, `${sure.words} (${percent(sure.probability)})`) : null,
          session.answers.length ? el("span", { class: "expected" }, `expected: ${session.answers.join(" · ")}`) : null),
        scoreBar(step),
      ),
    );
    if (declined) {
      parts.unshift(el("p", { class: "declined", title: SURE }, el("b", null, "The documents do not seem to answer this."),
        ` The nearest passages are below; the guess is right with a probability of ${percent(sure.probability)}.`));
    }
    if (!step.best.length) parts.push(el("p", { class: "none" }, "No passage was found. Ask in other words."));
    return parts;
  }
}

/** The server may need a moment to see that the agent was stopped. */
async function whenFree(call) {
  for (let tries = 0; ; tries++) {
    try {
      return await call();
    } catch (error) {
      if (error.status !== 409 || error.kind !== "SessionBusyError" || tries === 20) throw error;
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  }
}

const SURE = "The probability that this answer is right, fitted on questions with known answers: how sure the reader is, how far the passages agree, how close the next other answer is";
const percent = (share) => `${Math.round(100 * share)} %`;

const pair = (name, value) => el("div", null, el("dt", null, name), el("dd", null, value));

/** S and its parts where answers or judgements are known, else the mean PS. */
function scoreBar(step) {
  const total = scoreOf(step);
  const judged = step.score && step.score.ndcem === null; // by judgements, without answers
  const part = (name, share, told) => el("span", { class: `part ${name}`, style: { width: `${100 * share}%` }, title: told });
  const parts = step.score
    ? [
        part("ndcg", (judged ? 0.8 : 0.2) * step.score.ndcg, `relevant passages: NDCG ${number(step.score.ndcg)}`),
        judged ? null : part("ndcem", 0.6 * step.score.ndcem, `answers that are right: NDCEM ${number(step.score.ndcem)}`),
        part("mean", 0.2 * step.score.ps, `mean PS ${number(step.score.ps)}`),
      ]
    : [part("mean", step.mean_ps, `mean PS ${number(step.mean_ps)}`)];
  const name = step.score ? "Score" : "Mean PS";
  return el(
    "div",
    { class: "score", role: "img", "aria-label": `${name} ${number(total)}` },
    el("span", { class: "label" }, name),
    el("span", { class: "score-bar" }, parts),
    el("span", { class: "score-number" }, number(total)),
  );
}
