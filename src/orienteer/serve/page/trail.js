// The trail: every step of a session with what it did and what it changed, and the line of its score.

import { chip } from "./chips.js";
import { el, number, plural, signed, svg } from "./dom.js";

export const scoreOf = (step) => (step.score ? step.score.total : step.mean_ps);

/** The list of steps; choose(number) is called when one is chosen. */
export function trail(session, chosen, choose) {
  const list = el(
    "ol",
    { class: "trail", "aria-label": "Steps" },
    session.steps.map((step, i) => item(session, step, session.steps[i - 1], i === chosen, choose)),
  );
  list.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const next = chosen + (move ?? 0);
    if (!move || next < 0 || next >= session.steps.length) return;
    event.preventDefault();
    choose(next, true);
  });
  return list;
}

function item(session, step, before, current, choose) {
  const change = before ? scoreOf(step) - scoreOf(before) : null;
  return el(
    "li",
    { class: `step${step.by === "you" ? " yours" : ""}${step.dead_end ? " dead" : ""}` },
    el(
      "button",
      {
        type: "button", class: "step-button", "aria-current": current ? "step" : null,
        data: { step: String(step.number) }, onclick: () => choose(step.number, true),
      },
      el("span", { class: "node" }, String(step.number)),
      el("span", { class: "did" }, did(step)),
      change === null ? null : el("span", { class: `change ${tone(change)}` }, tone(change) === "same" ? "·" : signed(change, 2)),
    ),
    el("div", { class: "changes" }, changes(session, step)),
  );
}

function did(step) {
  if (step.by === "question") return el("span", { class: "plain" }, "the question");
  const who = ["you", "spelling"].includes(step.by) ? [" ", el("span", { class: "who" }, step.by)] : null;
  if (step.refinement) return [chip(step.refinement, true), who];
  return [el("span", { class: "plain" }, "↶ taken back"), who];
}

function changes(session, step) {
  if (step.dead_end) return el("span", { class: "none" }, "found nothing" + (step.number ? "; taken back" : ""));
  if (step.number === 0) return el("span", { class: "none" }, `${plural(step.best.length, "passage")} to begin with`);
  if (!step.entered.length && !step.left.length) return el("span", { class: "none" }, "best five unchanged");
  return [
    step.entered.map((id) => el("span", { class: "in" }, title(session, id))),
    step.left.map((id) => el("span", { class: "out" }, title(session, id))),
  ];
}

/** A passage's title; with its page where another passage of the session has the same title. */
export function title(session, id) {
  const passage = session.passages[id];
  if (!passage?.title) return id;
  const [page] = passage.source?.match(/, pages? [\d–]+$/) ?? [""];
  const twins = Object.values(session.passages).filter((each) => each.title === passage.title).length > 1;
  return twins ? passage.title + page : passage.title;
}

/** Whether a change of the score is one, once it is written with two digits. */
export const tone = (change) => (change >= 0.005 ? "up" : change <= -0.005 ? "down" : "same");

/** The score over the steps as a small line from 0 to the highest; the chosen step is a dot. */
export function scoreLine(session, chosen) {
  const values = session.steps.map(scoreOf);
  if (values.length < 2) return null;
  const [width, height, pad] = [240, 44, 5];
  const top = Math.max(...values);
  const at = (i) => [
    pad + (i * (width - 2 * pad)) / (values.length - 1),
    height - pad - (top > 0 ? (Math.max(0, values[i]) * (height - 2 * pad)) / top : 0),
  ];
  const what = session.steps[0].score ? "Score" : "Mean PS";
  const told = `${what} from ${number(values[0])} to ${number(values.at(-1))} over ${plural(values.length - 1, "step")}`;
  const points = values.map((_, i) => at(i).map((v) => v.toFixed(1)).join(",")).join(" ");
  const [x, y] = at(Math.min(chosen, values.length - 1));
  return el(
    "figure",
    { class: "line" },
    el(
      "div",
      { class: "line-plot" },
      svg(
        "svg",
        { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told, preserveAspectRatio: "none" },
        svg("polyline", { points, class: "line-path" }),
      ),
      el("span", { class: "line-scale top-end", "aria-hidden": "true" }, number(top)),
      el("span", { class: "line-scale", "aria-hidden": "true" }, "0"),
      el("span", { class: "line-dot", style: { left: `${(100 * x) / width}%`, top: `${(100 * y) / height}%` } }),
    ),
    el("figcaption", { title: `the line starts at 0; its highest point is ${number(top)}` }, what, el("span", null, `${number(values[0])} → ${number(values.at(-1))}`)),
  );
}
