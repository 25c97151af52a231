// Facets: metadata of the index with counts. What is chosen is a filter for everything that is searched.

import * as api from "./api.js";
import { button, el, plural, say } from "./dom.js";

const NAMES = { folder: "Folder", type: "File type", year: "Year", language: "Language" };

export class Facets {
  /** onChange(where) is called when another filter is chosen. */
  constructor({ onError, onChange }) {
    Object.assign(this, { onError, onChange, chosen: {}, where: "", index: "" });
    this.node = el("div", { class: "facets", role: "group", "aria-label": "Filter by metadata", hidden: true });
  }

  async load(index) {
    if (index !== this.index) Object.assign(this, { chosen: {}, where: "", index });
    await this.draw();
  }

  async draw() {
    try {
      const told = await api.post("api/facets", { index: this.index, chosen: this.chosen });
      const changed = told.where !== this.where;
      this.where = told.where;
      this.show(told);
      if (changed) this.onChange?.(told.where);
    } catch (error) {
      this.onError(error);
    }
  }

  show({ facets, passages, where }) {
    const focused = document.activeElement?.dataset?.facet;
    this.node.hidden = !facets.length;
    this.node.replaceChildren(
      ...facets.map((facet) => el("div", { class: "facet" },
        el("span", { class: "facet-name" }, NAMES[facet.field] ?? facet.field),
        facet.values.map((each) => this.value(facet.field, each)),
        facet.more ? el("span", { class: "none" }, `and ${facet.more.toLocaleString("en")} more`) : null)),
      el("p", { class: "facet-sum", role: "status" },
        where ? [`${plural(passages, "passage")} pass `, el("code", null, where), " ", button("Clear", () => this.clear(), { class: "link" })] : `All ${plural(passages, "passage")}. Choose a value to search only there.`),
    );
    if (focused) this.node.querySelector(`[data-facet="${CSS.escape(focused)}"]`)?.focus();
  }

  value(field, { value, passages }) {
    const on = this.chosen[field]?.includes(value) ?? false;
    return button([value, el("small", null, ` ${passages.toLocaleString("en")}`)], () => this.toggle(field, value), {
      class: "facet-value", "aria-pressed": String(on), data: { facet: `${field}=${value}` },
    });
  }

  toggle(field, value) {
    const others = (this.chosen[field] ?? []).filter((each) => each !== value);
    const on = others.length === (this.chosen[field] ?? []).length;
    this.chosen = { ...this.chosen, [field]: on ? [...others, value] : others };
    if (!this.chosen[field].length) delete this.chosen[field];
    say(`${value} ${on ? "chosen" : "taken back"}`);
    return this.draw();
  }

  clear() {
    this.chosen = {};
    return this.draw();
  }
}
