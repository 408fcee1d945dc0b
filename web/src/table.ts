// Makes every table of the document sortable, filterable and, where it has groups, groupable. It runs in the page and
// in notebooks, where several outputs may contain it: a table that is done is left alone.
import { button, element } from "./dom";

interface Unit {
  row: HTMLTableRowElement;
  members: HTMLTableRowElement[];
}

const names = new Intl.Collator("en", { numeric: true });

class SortableTable {
  private readonly body: HTMLTableSectionElement;
  private readonly layers: HTMLTableRowElement[];
  private readonly groups: HTMLTableRowElement[];
  private readonly headings: HTMLTableCellElement[];
  private readonly status = element("output", { class: "status" });
  private readonly noun: string;
  private readonly total: HTMLTableCellElement | null;
  private readonly totalName: string;
  private readonly opened = new Set<HTMLTableRowElement>();
  private column = -1;
  private descending = false;
  private depth = 0;
  private filter = "";
  private state = "";
  /** Whether the filter looks at all cells of a row, not at the name alone. */
  private readonly wide: boolean;

  constructor(root: HTMLElement) {
    const table = root.querySelector("table")!;
    this.body = table.tBodies[0]!;
    this.layers = [...this.body.rows];
    this.noun = root.dataset.noun ?? "row";
    this.wide = root.dataset.filter === "cells";
    this.groups = [...(root.querySelector("template")?.content.querySelectorAll("tr") ?? [])].map((row) =>
      document.importNode(row, true),
    );
    this.total = table.tFoot?.querySelector("th") ?? null;
    this.totalName = this.total?.textContent ?? "";
    this.headings = [...table.tHead!.rows[0]!.cells];
    this.headings.forEach((heading, column) => this.addSorting(heading, column));
    for (const row of this.groups) this.addToggle(row);
    if (this.layers.length > 1) root.prepend(this.buildTools());
  }

  private addSorting(heading: HTMLTableCellElement, column: number): void {
    const title = heading.textContent ?? "";
    heading.replaceChildren(button(title, { class: "sort", "data-sort": title }, () => this.sortBy(column)));
  }

  private addToggle(row: HTMLTableRowElement): void {
    const cell = row.cells[0]!;
    const toggle = button("", { class: "toggle", "aria-expanded": "false" }, () => {
      if (!this.opened.delete(row)) this.opened.add(row);
      toggle.setAttribute("aria-expanded", String(this.opened.has(row)));
      this.show();
    });
    toggle.append(...cell.childNodes);
    cell.append(toggle);
    row.classList.add("group");
  }

  private buildTools(): HTMLElement {
    const filter = element("input", {
      type: "search",
      class: "filter",
      placeholder: `Filter ${this.noun}s`,
      "aria-label": `Filter ${this.noun}s by ${this.wide ? "any text in a row" : "name"}; * matches any text`,
      autocomplete: "off",
      spellcheck: "false",
    });
    filter.addEventListener("input", () => {
      this.filter = filter.value;
      this.show();
    });
    // A notebook must not take the keys as its own shortcuts.
    filter.addEventListener("keydown", (event) => event.stopPropagation());
    const tools = element("div", { class: "tools" }, filter);
    const depths = this.groups.length ? (this.layers[0]!.dataset.groups ?? "").split(" ").length : 0;
    if (depths) tools.append(this.buildGrouping(depths));
    const states = new Map<string, number>();
    for (const { dataset } of this.layers)
      if (dataset.state) states.set(dataset.state, (states.get(dataset.state) ?? 0) + 1);
    if (states.size > 1) tools.append(this.buildStates(states));
    tools.append(this.status);
    return tools;
  }

  private buildGrouping(depths: number): HTMLElement {
    const select = element("select", { class: "grouping" }, element("option", { value: 0 }, "none"));
    for (let depth = 1; depth <= depths; depth++) {
      select.append(element("option", { value: depth }, `${depth} ${depth === 1 ? "component" : "components"}`));
    }
    select.addEventListener("change", () => {
      this.depth = Number(select.value);
      this.show();
    });
    return element("label", {}, "Group by name ", select);
  }

  private buildStates(states: Map<string, number>): HTMLElement {
    const select = element(
      "select",
      { class: "states" },
      element("option", { value: "" }, `all ${this.layers.length}`),
    );
    for (const [state, number] of states) select.append(element("option", { value: state }, `${state} (${number})`));
    select.addEventListener("change", () => {
      this.state = select.value;
      this.show();
    });
    return element("label", {}, "Show ", select);
  }

  private sortBy(column: number): void {
    const numeric = this.headings[column]!.classList.contains("number");
    // First click: largest number or first name; second click: the reverse; third click: the order of the model.
    if (this.column !== column) [this.column, this.descending] = [column, numeric];
    else if (this.descending === numeric) this.descending = !numeric;
    else this.column = -1;
    this.headings.forEach((heading, each) => {
      if (each !== this.column) heading.removeAttribute("aria-sort");
      else heading.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
    });
    this.show();
  }

  private show(): void {
    const match = matcher(this.filter);
    const layers = this.sorted(this.layers.filter((row) => this.isShown(row, match)));
    const units = this.depth ? this.sortedUnits(this.unite(layers)) : layers.map((row) => ({ row, members: [] }));
    const rows: HTMLTableRowElement[] = [];
    for (const { row, members } of units) {
      rows.push(row, ...(this.opened.has(row) ? members : []));
      for (const member of members) member.classList.add("member");
      if (!members.length) row.classList.remove("member");
    }
    this.body.replaceChildren(...rows);
    const all = layers.length === this.layers.length;
    this.status.textContent = all ? "" : `${layers.length} of ${this.layers.length} ${this.noun}s`;
    if (this.total && this.noun === "layer") this.total.textContent = all ? this.totalName : "whole model";
  }

  private isShown(row: HTMLTableRowElement, match: (name: string) => boolean): boolean {
    const words = this.wide ? [...row.cells].map((_, column) => text(row, column)).join(" ") : text(row, 0);
    return (!this.state || row.dataset.state === this.state) && match(words);
  }

  /** Put layers of the same group together, in the order of their first members. */
  private unite(layers: HTMLTableRowElement[]): Unit[] {
    const units = new Map<HTMLTableRowElement, Unit>();
    for (const layer of layers) {
      const number = Number((layer.dataset.groups ?? "").split(" ")[this.depth - 1] ?? -1);
      const row = this.groups[number] ?? layer;
      const unit = units.get(row) ?? { row, members: [] };
      if (row !== layer) unit.members.push(layer);
      units.set(row, unit);
    }
    return [...units.values()];
  }

  private sortedUnits(units: Unit[]): Unit[] {
    const order = new Map(this.sorted(units.map((unit) => unit.row)).map((row, place) => [row, place]));
    return units.sort((a, b) => order.get(a.row)! - order.get(b.row)!);
  }

  private sorted(rows: HTMLTableRowElement[]): HTMLTableRowElement[] {
    if (this.column < 0) return rows;
    const numeric = this.headings[this.column]!.classList.contains("number");
    const sign = this.descending ? -1 : 1;
    const keyed = rows.map((row) => ({ row, key: text(row, this.column) }));
    return keyed
      .sort((a, b) => {
        // What is blank or no number comes last in either direction.
        if (numeric) return compare(number(a.key), number(b.key), sign);
        return Number(!a.key) - Number(!b.key) || sign * names.compare(a.key, b.key);
      })
      .map(({ row }) => row);
  }
}

function text(row: HTMLTableRowElement, column: number): string {
  return row.cells[column]?.textContent?.trim() ?? "";
}

/** Return the number at the start of a cell: 1,234, 99.2 %, 12.5x, 3 of 10. */
function number(cell: string): number {
  return /^(\u221e|inf)/.test(cell) ? Infinity : parseFloat(cell.replaceAll(",", ""));
}

function compare(a: number, b: number, sign: number): number {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return a === b ? 0 : a < b ? -sign : sign;
}

/** Return a test for names: a pattern with * or ? matches the whole name, any other text a part of it. */
function matcher(filter: string): (name: string) => boolean {
  const wanted = filter.trim().toLowerCase();
  if (!/[*?]/.test(wanted)) return (name) => name.toLowerCase().includes(wanted);
  const pattern = wanted
    .replace(/[\\^$+.()|[\]{}]/g, "\\$&")
    .replaceAll("*", ".*")
    .replaceAll("?", ".");
  const regex = new RegExp(`^${pattern}$`, "s");
  return (name) => regex.test(name.toLowerCase());
}

for (const root of document.querySelectorAll<HTMLElement>("[data-effsparse-table]:not([data-ready])")) {
  root.dataset.ready = "";
  new SortableTable(root);
}
