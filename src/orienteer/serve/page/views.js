// The four views: ask, compare, sessions, gallery. Each is a function that fills the page and returns its panel.

import * as api from "./api.js";
import { askForm, exampleList } from "./asking.js";
import { chip } from "./chips.js";
import { Facets } from "./facets.js";
import { button, el, number, plural, signed } from "./dom.js";
import { Panel } from "./panel.js";
import { tone } from "./trail.js";
import { dropZone } from "./uploads.js";

const AT_ONCE = 50;

/** One question, one agent; or a session that is already there. */
export async function ask(page, about, { onError, setAddress, refresh }, id) {
  const begin = (example) => {
    form.querySelector("#ask-question").value = example.question;
    form.querySelector("#ask-answers").value = example.answers.join("; ");
    form.requestSubmit();
  };
  const facets = new Facets({ onError, onChange: () => panel.session && form.querySelector("#ask-question").value && form.requestSubmit() });
  const examples = el("div", null, exampleList(about.examples, begin));
  const chooseIndex = async (index) => {
    facets.load(index);
    examples.replaceChildren(exampleList(await api.get(`api/examples?${new URLSearchParams({ index })}`), begin) ?? "");
  };
  const panel = new Panel({ onError, onOpen: (id) => setAddress(`#/session/${id}`), agent: () => form.querySelector("#ask-agent-0").value });
  const form = askForm(about, {
    labels: ["Agent"], agents: [about.default_agent], onIndex: chooseIndex,
    onSubmit: ({ question, answers, agents: [agent], steps, index }) => {
      panel.clear();
      begun();
      return panel.run("api/sessions", { question, answers, agent, steps, index, where: facets.where });
    },
  });
  const drop = dropZone(about, {
    onError,
    onBuilt: async ({ index }) => {
      await refresh();
      form.fillIndexes(index);
      await chooseIndex(index);
      form.querySelector("#ask-question").focus();
    },
  });
  const intro = el("div", { class: "intro" }, examples, drop);
  const begun = () => {
    intro.hidden = true;
    page.classList.add("has-session");
  };
  page.classList.remove("has-session");
  page.replaceChildren(
    el("div", { class: "hero" },
      el("h1", null, "Watch an agent search, and steer it"),
      el("p", { class: "lead" }, "It reads the first results, refines the query with plain terms and operators, looks again, and keeps the best five passages found on the way."),
      form, facets.node),
    intro, panel.node,
  );
  if (!id) {
    facets.load(about.indexes[0].name);
    form.querySelector("#ask-question").focus();
    return panel;
  }
  begun();
  panel.show(await api.get(`api/sessions/${id}`));
  form.fillIndexes(panel.session.index);
  facets.load(panel.session.index || about.indexes[0].name);
  form.querySelector("#ask-question").value = panel.session.question;
  form.querySelector("#ask-answers").value = panel.session.answers.join("; ");
  return panel;
}

/** One question, two agents side by side. */
export async function compare(page, about, { onError, setAddress }, ids = []) {
  const summary = el("p", { class: "summary", role: "status" });
  const best = (panel) => panel.session?.steps[panel.chosen]?.best ?? [];
  const panels = [0, 1].map(
    (i) => new Panel({ compact: true, onError, isShared: (id) => best(panels[1 - i]).includes(id), onDraw: () => summarise() }),
  );
  const summarise = () => {
    const [left, right] = panels.map(best);
    if (!left.length || !right.length) return summary.replaceChildren();
    const both = left.filter((id) => right.includes(id)).length;
    summary.replaceChildren(`${plural(both, "passage")} of the best five in common`);
    return undefined;
  };
  const other = about.agents.find(({ name }) => name === "bm25+ps")?.name ?? about.agents[0].name;
  const form = askForm(about, {
    labels: ["Left", "Right"], agents: [other, about.default_agent],
    onSubmit: async ({ question, answers, agents, steps, index }) => {
      begun();
      panels.forEach((panel) => panel.clear());
      await Promise.all(panels.map((panel, i) => panel.run("api/sessions", { question, answers, agent: agents[i], steps, index })));
      panels.forEach((panel) => panel.draw());
      if (panels.every((panel) => panel.session)) setAddress(`#/compare/${panels.map((panel) => panel.session.id).join("/")}`);
    },
  });
  const intro = el("div", { class: "intro" }, exampleList(about.examples, (example) => {
    form.querySelector("#ask-question").value = example.question;
    form.querySelector("#ask-answers").value = example.answers.join("; ");
    form.requestSubmit();
  }));
  const side = (panel, i) =>
    el("section", { class: "side-by-side", "aria-label": i ? "Right" : "Left" }, el("h2", { class: "side-title" }, ""), panel.node);
  const sides = panels.map(side);
  panels.forEach((panel, i) => {
    const draw = panel.options.onDraw;
    panel.options.onDraw = () => {
      sides[i].querySelector(".side-title").textContent = panel.session?.agent ?? "";
      draw();
    };
  });
  const begun = () => {
    intro.hidden = true;
    page.classList.add("has-session");
  };
  page.classList.remove("has-session");
  page.replaceChildren(
    el("div", { class: "hero" }, el("h1", null, "Compare two agents"), form),
    intro, summary, el("div", { class: "pair" }, sides),
  );
  if (ids.length === 2) {
    begun();
    const sessions = await Promise.all(ids.map((id) => api.get(`api/sessions/${id}`)));
    sessions.forEach((session, i) => panels[i].show(session));
    panels.forEach((panel) => panel.draw());
    form.querySelector("#ask-question").value = sessions[0].question;
  }
  return panels[0];
}

/** Sessions in hand and saved, and files of others. */
export async function sessions(page, about, { onError, setAddress }) {
  const list = el("ul", { class: "rows" });
  const fill = async () => {
    const found = (await api.get("api/sessions")).sessions;
    list.replaceChildren(...(found.length ? found.map(row) : [el("li", { class: "none" }, "Nothing yet: ask a question, then save it.")]));
  };
  const row = (session) =>
    el(
      "li",
      { class: "row" },
      el("a", { href: `#/session/${session.id}`, class: "row-main" },
        el("span", { class: "row-title" }, session.question || "(no question)"),
        el("span", { class: "row-facts" }, `${session.agent} · ${plural(session.queries, "query", "queries")} · ${plural(session.passages_read, "passage")} read`,
          session.answer ? el("span", null, " · answer: ", el("b", null, session.answer)) : null)),
      el("span", { class: `badge${session.saved ? " good" : ""}` }, session.saved ? "saved" : "in memory"),
      button("Delete", async () => {
        try {
          await api.remove(`api/sessions/${session.id}`);
          await fill();
        } catch (error) {
          onError(error);
        }
      }, { class: "link", "aria-label": `Delete: ${session.question}` }),
    );
  const file = el("input", {
    type: "file", id: "session-file", accept: ".jsonl,.json", class: "unseen",
    onchange: async () => {
      try {
        const [line] = (await file.files[0].text()).split("\n");
        const opened = await api.post("api/sessions/load", parsed(line));
        setAddress(`#/session/${opened.id}`, true);
      } catch (error) {
        onError(error);
      }
      file.value = "";
    },
  });
  page.classList.remove("has-session");
  page.replaceChildren(
    el("div", { class: "hero" },
      el("h1", null, "Sessions"),
      el("p", { class: "lead" }, "What is in memory is gone with the server; what is saved stays. A file from somebody else opens here too."),
      el("p", null, file, el("label", { for: "session-file", class: "button" }, "Open a session's file"))),
    list,
  );
  await fill();
}

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error("this file holds no session: its first line is not JSON");
  }
}

/** An evaluation: the report's figures, and its sessions by what became of them. */
export async function gallery(page, about, { onError, setAddress }) {
  if (!about.gallery) {
    page.replaceChildren(
      el("h1", null, "Gallery"),
      el("p", null, "Here you browse the sessions of an evaluation: which questions an agent answered, which refinement helped, where it failed. This server was started without one."),
      el("p", null, "Make one, then start the server with it:"),
      el("pre", { tabindex: "0" }, "orienteer evaluate --index my-index --questions dev.jsonl --agents bm25+ps,pointer --out out\norienteer serve --index my-index --evaluation out"),
    );
    return null;
  }
  const told = await api.get("api/gallery");
  const state = { agent: Object.keys(told.agents).at(-1), kind: "", operator: "", text: "", rows: [] };
  const figures = el("div", { class: "figures", tabindex: "0", role: "region", "aria-label": "Figures, by agent" });
  const filters = el("div", { class: "filters" });
  const list = el("ul", { class: "rows" });
  const more = el("p");
  const search = el("input", { type: "search", id: "gallery-text", placeholder: "words of the question", autocomplete: "off" });
  let wait;
  search.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(() => pick({ text: search.value }), 250);
  });

  const pick = async (change) => {
    Object.assign(state, change, { rows: [] });
    await fill();
  };
  const fill = async () => {
    try {
      const query = new URLSearchParams({ agent: state.agent, kind: state.kind, operator: state.operator, text: state.text, offset: state.rows.length, limit: AT_ONCE });
      const found = await api.get(`api/gallery/sessions?${query}`);
      state.rows.push(...found.rows);
      draw(found);
    } catch (error) {
      onError(error);
    }
  };
  const draw = (found) => {
    figures.replaceChildren(table());
    filters.replaceChildren(
      choices("What became of it", "kind", ["", "rescued", "lost", "kept", "missed"], found.kinds),
      choices("Operator", "operator", ["", ...Object.keys(found.operators).sort()], found.operators),
    );
    list.replaceChildren(...(state.rows.length ? state.rows.map(row) : [el("li", { class: "none" }, "No session is like this.")]));
    more.replaceChildren(
      el("span", { class: "none" }, `${state.rows.length} of ${plural(found.found, "session")} `),
      state.rows.length < found.found ? button("Show more", fill) : "",
    );
  };
  const choices = (label, key, values, counts) =>
    el("div", { class: "segments", role: "group", "aria-label": label }, values.map((value) =>
      button([value || "all", counts[value] ? el("small", null, ` ${counts[value].toLocaleString("en")}`) : null], () => pick({ [key]: value }),
        { "aria-pressed": String(state[key] === value), class: `segment ${value}`, data: { [key]: value || "all" } })));
  const table = () => {
    const best = Object.fromEntries(told.measures.map(({ name }) => [name, Math.max(...Object.values(told.agents).map((row) => row[name] ?? -Infinity))]));
    return el(
      "table",
      null,
      el("thead", null, el("tr", null, el("th", { scope: "col" }, "agent"), told.measures.map(({ name, about: what }) => el("th", { scope: "col", title: what }, name)))),
      el("tbody", null, Object.entries(told.agents).map(([name, row]) =>
        el("tr", { "aria-selected": null, class: name === state.agent ? "chosen" : null },
          el("th", { scope: "row" }, button(name, () => pick({ agent: name, operator: "" }), { class: "link", "aria-pressed": String(name === state.agent) })),
          told.measures.map(({ name: measure, percent }) =>
            el("td", { class: `n${percent && row[measure] === best[measure] ? " top" : ""}` }, row[measure] === undefined ? "–" : number(row[measure], 1)))))),
    );
  };
  const row = (each) =>
    el(
      "li",
      { class: "row" },
      el("span", { class: `badge ${each.kind}` }, each.kind),
      button([
        el("span", { class: "row-title" }, each.question),
        el("span", { class: "row-facts" }, each.answer ? ["answer: ", el("b", null, each.answer)] : "no answer",
          each.answers.length ? ` · expected: ${each.answers.slice(0, 3).join(", ")}` : null, ` · ${plural(each.steps, "step")}`),
      ], async () => {
        try {
          const opened = await api.call("POST", `api/gallery/open?${new URLSearchParams({ agent: state.agent, number: each.number })}`);
          setAddress(`#/session/${opened.id}`, true);
        } catch (error) {
          onError(error);
        }
      }, { class: "row-main" }),
      el("span", { class: "row-ops" }, each.operators.map((operator) => chip(asRefinement(operator)))),
      each.reward === null ? null : el("span", { class: `change ${tone(each.reward)}` }, tone(each.reward) === "same" ? "·" : signed(each.reward, 2)),
    );
  page.classList.remove("has-session");
  page.replaceChildren(
    el("div", { class: "hero" },
      el("h1", null, "Gallery"),
      el("p", { class: "lead" }, `${plural(told.questions, "question")}, ${plural(Object.keys(told.agents).length, "agent")}. Percent, but for the costs at the right; choose an agent to see its sessions.`)),
    figures,
    el("p", null, el("label", { for: "gallery-text", class: "unseen" }, "Words of the question"), search),
    filters, list, more,
  );
  await fill();
}

/** `-t`, `^.1`, `or` as a chip without a term. */
function asRefinement(name) {
  const op = name.startsWith("^") ? "^" : name === "or" ? "or" : name[0];
  const field = name.endsWith("t") && "+-".includes(op) ? "title" : "contents";
  return { op, field, term: "", weight: op === "^" ? Number(name.slice(1)) : 1, text: name };
}
