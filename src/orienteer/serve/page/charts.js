// Small line charts: axes with their numbers, one or more curves, points that can be chosen.

import { el, svg } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [340, 170, 34, 24, 8, 8];

/**
 * curves: [{points: [[x, y]], kind}]; low and high: the y axis; marks: [x, y, chosen, onChoose, label];
 * line: a y value that is drawn across.
 */
export function chart({ label, curves, low, high, marks = [], line = null, digits = 2, ticks }) {
  const xs = curves.flatMap(({ points }) => points.map(([x]) => x));
  const [first, last] = [Math.min(...xs), Math.max(...xs)];
  const x = (value) => LEFT + ((value - first) / (last - first || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low || 1)) * (HEIGHT - BOTTOM - TOP);
  const path = (points) => points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
  const shown = ticks ?? [first, last];
  return el("div", null, svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    [low, (low + high) / 2, high].map((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 4, y: y(value) + 3, "text-anchor": "end" }, value.toFixed(digits)),
    ]),
    shown.map((value) => svg("text", { x: x(value), y: HEIGHT - 6, "text-anchor": "middle" }, String(value))),
    line === null ? null : svg("line", { class: "default", x1: LEFT, x2: WIDTH - RIGHT, y1: y(line), y2: y(line) }),
    curves.map(({ points, kind = "" }) => svg("polyline", { class: `curve ${kind}`, points: path(points) })),
    marks.map(([a, b, chosen, onChoose]) => svg("circle", { class: `dot${chosen ? " chosen" : ""}`, cx: x(a), cy: y(b), r: chosen ? 5 : 4, onclick: onChoose }))));
}
