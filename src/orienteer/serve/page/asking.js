// The form that asks: a question, an agent or two, how many steps.

import { button, el } from "./dom.js";

/** `agents` are the labels of the agents to choose; submit({question, answers, agents, steps}). */
export function askForm(about, { agents, labels, question = "", onSubmit, onIndex }) {
  const choice = el("select", { id: "ask-index", onchange: () => onIndex?.(choice.value) });
  const index = field("Index", choice);
  const fillIndexes = (chosen) => {
    choice.replaceChildren(...about.indexes.map(({ name }) => el("option", { value: name, selected: name === chosen }, name)));
    index.hidden = about.indexes.length < 2;
  };
  const form = el(
    "form",
    {
      class: "ask", "aria-label": "Ask",
      onsubmit: (event) => {
        event.preventDefault();
        const value = (id) => form.querySelector(`#${id}`)?.value.trim() ?? "";
        form.classList.remove("open");
        if (!value("ask-question")) return form.querySelector("#ask-question").focus();
        onSubmit({
          question: value("ask-question"),
          answers: value("ask-answers").split(";").map((text) => text.trim()).filter(Boolean),
          agents: labels.map((_, i) => value(`ask-agent-${i}`)),
          steps: Math.min(Math.max(0, Number(value("ask-steps")) || 0), about.max_steps),
          index: value("ask-index"),
        });
      },
    },
    el("label", { class: "unseen", for: "ask-question" }, "Your question"),
    el(
      "div",
      { class: "ask-line" },
      el("input", { id: "ask-question", type: "text", value: question, placeholder: "Ask a question in plain words", autocomplete: "off", maxlength: "2000", required: true }),
      el("button", { type: "submit", class: "primary" }, labels.length > 1 ? "Compare" : "Ask"),
    ),
    button("Options", () => form.classList.toggle("open"), { class: "link ask-toggle" }),
    el(
      "div",
      { class: "ask-options" },
      labels.map((label, i) => {
        const { select, line } = agentChoice(about, `ask-agent-${i}`, agents[i]);
        return el("div", { class: "agent-field" }, field(label, select), line);
      }),
      field("Steps", el("input", { id: "ask-steps", type: "number", min: "0", max: String(about.max_steps), value: String(about.default_steps) })),
      field("Known answer", el("input", { id: "ask-answers", type: "text", placeholder: "optional; several with ;", autocomplete: "off" })),
      index,
    ),
  );
  fillIndexes(about.indexes[0].name);
  form.fillIndexes = fillIndexes;
  return form;
}

const field = (label, control) => el("label", { class: "field-label" }, el("span", null, label), control);

/** The recommended agent first, then all, group by group; what the chosen one does stands under the choice. */
function agentChoice(about, id, chosen) {
  const families = new Map([["Recommended", about.agents.filter(({ name }) => name === about.default_agent)]]);
  for (const agent of about.agents) {
    if (agent.name !== about.default_agent) families.set(agent.family, [...(families.get(agent.family) ?? []), agent]);
  }
  const aboutOf = (name) => about.agents.find((agent) => agent.name === name)?.about ?? "";
  const line = el("span", { class: "agent-about", id: `${id}-about` }, aboutOf(chosen));
  const select = el(
    "select",
    { id, "aria-describedby": line.id, onchange: () => (line.textContent = aboutOf(select.value)) },
    [...families].filter(([, agents]) => agents.length).map(([family, agents]) =>
      el("optgroup", { label: family }, agents.map(({ name, about: what }) => el("option", { value: name, selected: name === chosen, title: what }, name))),
    ),
  );
  return { select, line };
}

/** Questions to begin with; ask(example) when one is chosen. */
export function exampleList(examples, ask) {
  if (!examples.length) return null;
  return el(
    "section",
    { class: "examples", "aria-labelledby": "examples-title" },
    el("h2", { id: "examples-title" }, "Questions to begin with"),
    el("ul", null, examples.map((example) => el("li", null, button(example.question, () => ask(example), { class: "example" })))),
  );
}
