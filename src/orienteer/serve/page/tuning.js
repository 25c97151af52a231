// Tuning curves from judged questions, and what thumbs teach: shown with what it is worth before it is switched on.

import * as api from "./api.js";
import { chart } from "./charts.js";
import { button, el, number, plural, say, signed } from "./dom.js";

const NAMES = { k1: "k1: how soon repetition stops counting", b: "b: how much length counts", title_weight: "weight of the title", phrase_weight: "weight of word pairs" };
const settingText = (setting) => `k1 ${setting.k1}, b ${setting.b}, title ${setting.title_weight}, pairs ${setting.phrase_weight}`;
const interval = ({ difference, low, high }) => `${signed(difference)} (95 %: ${signed(low)} to ${signed(high)})`;

export function tuning({ onError, index }) {
  const view = el("div");
  const run = async (judged, from) => {
    view.replaceChildren(el("p", { class: "busy" }, el("span", { class: "dots", "aria-hidden": "true" }), "trying settings"));
    try {
      const told = await api.post("api/workshop/tune", { judged, index: index() });
      view.replaceChildren(...curves(told, from));
      say(verdict(told));
    } catch (error) {
      view.replaceChildren();
      onError(error);
    }
  };
  const files = el("input", { type: "file", id: "judged-files", multiple: true, accept: ".jsonl,.tsv,.txt,.qrels", class: "unseen", onchange: async () => {
    try {
      await run(await judgedFrom([...files.files]), "the file");
    } catch (error) {
      onError(error);
    }
    files.value = "";
  } });
  return el("section", { class: "tool", "aria-labelledby": "tuning-title" },
    el("h2", { id: "tuning-title" }, "Tuning curves"),
    el("p", { class: "soft" }, "How the ranking's parameters do on judged questions: your marks, or BEIR's queries.jsonl with a qrels file."),
    el("p", { class: "tool-buttons" }, button("From my marks", () => run([], "your marks"), { id: "tune-marks" }), files, el("label", { for: "judged-files", class: "button" }, "From files")),
    view);
}

const verdict = (told) => told.shown_better
  ? `Better than the default: ${settingText(told.recommended)}.`
  : "No setting is shown to be better than the default; keep it.";

function curves(told, from) {
  const shown = Object.entries(told.curves).filter(([name, points]) => NAMES[name] && points.length > 1);
  const all = [told.default_value, ...shown.flatMap(([, points]) => points.map(([, value]) => value))];
  const [low, high] = [Math.floor(20 * Math.min(...all)) / 20, Math.ceil(20 * Math.max(...all)) / 20];
  return [
    el("p", { class: "verdict", id: "tuning-verdict" }, el("b", null, verdict(told))),
    el("p", null, `${plural(told.questions, "question")} of ${from}, ${plural(told.settings, "setting")}. nDCG@10 of the default ${number(told.default_value, 3)}; cross-validated gain ${interval(told)}. The best on all of them, ${number(told.best_value, 3)}, is optimistic.`),
    el("div", { class: "curves" }, shown.map(([name, points]) => el("figure", null,
      chart({ label: `${name}: ${points.map(([x, y]) => `${x}: ${number(y, 3)}`).join(", ")}`, curves: [{ points }], low, high: Math.max(high, low + 0.05), line: told.default_value }),
      el("figcaption", null, NAMES[name])))),
    el("p", { class: "soft" }, "Each curve has the best mean with that value, all else free; dotted: the default. The scale is the same in all, and does not begin at 0."),
  ];
}

/** BEIR's queries.jsonl and qrels, or lines {"question", "relevant": [ids]}. */
async function judgedFrom(files) {
  const queries = new Map();
  const grades = new Map();
  const judge = (query, id, grade) => grades.set(query, { ...grades.get(query), [id]: grade });
  for (const file of files) {
    for (const line of (await file.text()).split("\n").filter((each) => each.trim())) {
      if (line.trim().startsWith("{")) {
        const row = JSON.parse(line);
        const name = String(row._id ?? row.id ?? row.question);
        queries.set(name, row.text ?? row.question);
        (row.relevant ?? []).forEach((id) => judge(name, String(id), 1));
      } else {
        const parts = line.trim().split(/\s+/);
        const [query, id, grade] = parts.length > 3 ? [parts[0], parts[2], parts[3]] : parts;
        if (Number.isFinite(Number(grade))) judge(query, id, Number(grade));
      }
    }
  }
  const judged = [...grades].filter(([name]) => queries.get(name)).map(([name, judgements]) => ({ question: queries.get(name), judgements }));
  if (!judged.length) throw new Error("no judged questions in these files; choose queries.jsonl and a qrels file together");
  return judged.slice(0, 1000);
}

export function learning({ onError, index, onSwitch }) {
  const view = el("div");
  const switchTo = async (on) => {
    try {
      await api.post("api/workshop/learn/switch", { on, index: index() });
      onSwitch(on);
      await propose();
    } catch (error) {
      onError(error);
    }
  };
  const propose = async () => {
    try {
      const told = await api.call("POST", `api/workshop/learn?${new URLSearchParams({ index: index() })}`);
      view.replaceChildren(...proposal(told, switchTo));
    } catch (error) {
      view.replaceChildren(el("p", { class: "problem" }, error.message));
    }
  };
  return el("section", { class: "tool", "aria-labelledby": "learning-title" },
    el("h2", { id: "learning-title" }, "Learn from thumbs"),
    el("p", { class: "soft" }, "Marks and thumbs stay on this machine. Some twenty of them suggest another ranking, synonyms and boosts; nothing is used before you switch it on."),
    el("p", { class: "tool-buttons" }, button("See what they suggest", propose, { id: "learn" })),
    view);
}

function proposal(told, switchTo) {
  const row = (name, estimate) => el("tr", null, el("td", null, name), el("td", { class: "n" }, number(estimate.value, 3)), el("td", { class: "n" }, interval(estimate)));
  const synonyms = Object.entries(told.synonyms);
  const boosts = Object.entries(told.boosts);
  const words = {
    nothing: "Nothing is shown to be better than the ranking as it is.", refit: "The other parameters are shown to be better.",
    synonyms: "The synonyms are shown to be better.", boosts: "The boosts are shown to be better.",
    all: "Parameters, synonyms and boosts together are shown to be better.",
  };
  return [
    el("p", { class: "verdict", id: "learn-verdict" }, el("b", null, words[told.recommended])),
    el("p", null, `${plural(told.thumbs, "thumb")} on ${plural(told.questions, "question")}. Estimates leave one question out at a time (nDCG@10):`),
    el("table", null, el("thead", null, el("tr", null, ["", "value", "gain"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", null, el("tr", null, el("td", null, "as it is"), el("td", { class: "n" }, number(told.nothing, 3)), el("td", { class: "n" }, "")),
        row(`parameters (${settingText(told.setting)})`, told.estimates.refit), row("synonyms", told.estimates.synonyms),
        row("boosts", told.estimates.boosts), row("all together", told.estimates.all))),
    synonyms.length ? el("p", null, "Synonyms: ", synonyms.map(([term, others], i) => [i ? "; " : "", el("b", null, term), ` → ${others.join(", ")}`])) : null,
    boosts.length ? el("p", null, "Boosts: ", boosts.map(([term, weight], i) => [i ? ", " : "", el("b", null, term), ` ^${1 + weight}`])) : null,
    el("p", { class: "tool-buttons" }, button(told.on ? "Switch off" : "Switch on", () => switchTo(!told.on), { id: "switch-learned", "aria-pressed": String(told.on) }),
      el("span", { class: "none" }, told.on ? "Searches above can use it; agents do not." : "Off. It can be switched off again at any time.")),
  ].filter(Boolean);
}
