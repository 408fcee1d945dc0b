// The section with the network: its state, controls, rows of SVG, and how boxes react to mouse and keys.
import { type Counts, KINDS, type Layer, type Network, type Report, add, countsOf } from "../data";
import { button, element, svg } from "../dom";
import { shorten, thousands, visible } from "../text";
import { addTip, describe } from "../tip";
import { type Facts, RAISED, drawBox, halfOf, sizeOf } from "./boxes";
import { type Layout, type Placed, type Row, fold, place, smooth } from "./layout";
import { type Box, ModuleTree, moduleLabel } from "./modules";

const ZOOMS = [0.35, 0.5, 0.7, 0.85, 1, 1.25, 1.6, 2];
const LANE = 20;
const PRINTED = 720;

export class NetworkSection {
  private readonly tree: ModuleTree;
  private readonly layers = new Map<string, { layer: Layer; counted: boolean }>();
  private readonly picture = document.getElementById("network-picture")!;
  private readonly facts = new Map<Box, Facts>();
  private layout!: Layout;
  private zoom = 4;
  private focused = "";

  constructor(
    network: Network,
    private readonly report: Report,
    private readonly open: (name: string) => void,
  ) {
    for (const layer of report.embeddings) this.layers.set(layer.name, { layer, counted: false });
    for (const layer of report.layers) this.layers.set(layer.name, { layer, counted: true });
    this.tree = new ModuleTree(network);
    this.addControls();
    this.addHint();
    document.getElementById("network")!.hidden = false;
    this.update();
    let width = this.picture.clientWidth;
    new ResizeObserver(() => {
      if (this.picture.clientWidth === width) return;
      width = this.picture.clientWidth;
      this.draw();
    }).observe(this.picture);
    addEventListener("beforeprint", () => this.draw(PRINTED));
    addEventListener("afterprint", () => this.draw());
  }

  private addControls(): void {
    const change = (act: () => void) => () => {
      act();
      this.update();
    };
    document.getElementById("network-tools")!.append(
      button(
        "Expand all",
        { id: "network-expand" },
        change(() => this.tree.expandAll()),
      ),
      button(
        "Collapse all",
        { id: "network-collapse" },
        change(() => this.tree.collapseAll()),
      ),
      button("−", { id: "network-smaller", "aria-label": "Smaller" }, () => this.setZoom(this.zoom - 1)),
      button("+", { id: "network-larger", "aria-label": "Larger" }, () => this.setZoom(this.zoom + 1)),
      button("Fit", { id: "network-fit" }, () => this.fit()),
    );
  }

  private addHint(): void {
    const { cut, narrowest } = this.report;
    const place = cut ?? narrowest;
    const where = place ? ` The ${cut ? "cut is at" : "narrowest layer is"} ${visible(place)}.` : "";
    document.getElementById("network-hint")!.textContent =
      "Data flows from left to right, row by row. The height of a column is the number of connections, on a log scale. " +
      `Select a module to expand it, a layer to open it.${where}`;
  }

  /** Find the boxes again, after modules were expanded or collapsed. */
  private update(): void {
    const shown = this.tree.visible();
    this.facts.clear();
    for (const box of shown.boxes) this.facts.set(box, this.findFacts(box));
    const facts = (box: Box) => this.facts.get(box)!;
    this.layout = place(
      shown,
      (box) => sizeOf(box, facts(box)),
      (box) => halfOf(box, facts(box)),
      RAISED,
    );
    document.getElementById("network-expand")!.toggleAttribute("disabled", !this.tree.canExpand);
    document.getElementById("network-collapse")!.toggleAttribute("disabled", !this.tree.canCollapse);
    this.draw();
    this.drawLegend();
  }

  private findFacts(box: Box): Facts {
    const names = new Set(box.nodes.map((node) => this.tree.nameOf(node)).filter((name) => this.layers.has(name)));
    const found = [...names].map((name) => this.layers.get(name)!);
    // Embedding tables do not count, unless nothing else is in the box.
    const counted = found.filter((each) => each.counted);
    const summed = (counted.length ? counted : found).map(({ layer }) => countsOf(layer));
    const counts = summed.length ? summed.reduce(add) : null;
    const mark = this.report.cut !== null && names.has(this.report.cut) ? "cut here" : "";
    const narrow = this.report.narrowest !== null && names.has(this.report.narrowest) ? "narrowest" : "";
    return { counts, layers: names.size, uncounted: !counted.length, mark: mark || narrow };
  }

  private setZoom(zoom: number): void {
    this.zoom = Math.min(Math.max(zoom, 0), ZOOMS.length - 1);
    this.draw();
  }

  /** Choose the largest zoom at which the whole picture fits the window. */
  private fit(): void {
    const room = 0.8 * innerHeight;
    const height = (zoom: number) =>
      ZOOMS[zoom]! *
      fold(this.layout, this.picture.clientWidth / ZOOMS[zoom]!).reduce((sum, row) => sum + heightOf(row), 0);
    const fitting = ZOOMS.map((_, zoom) => zoom).filter((zoom) => height(zoom) <= room);
    this.setZoom(fitting.at(-1) ?? 0);
    document.getElementById("network")!.scrollIntoView({ block: "start" });
  }

  private draw(width = this.picture.clientWidth): void {
    const scale = ZOOMS[this.zoom]!;
    const rows = fold(this.layout, width / scale);
    const most = Math.max(1, ...[...this.facts.values()].map((facts) => facts.counts?.connections ?? 0));
    this.picture.replaceChildren(
      ...rows.map((row) => element("div", { class: "row" }, this.drawRow(row, scale, most))),
    );
    this.moveFocus(this.focused, false);
  }

  private drawRow(row: Row, scale: number, most: number): SVGElement {
    const [width, height] = [row.right - row.left, heightOf(row)];
    const top = row.top - LANE * row.lanes.length;
    const picture = svg("svg", {
      viewBox: `${row.left} ${top} ${width} ${height}`,
      width: width * scale,
      height: height * scale,
    });
    for (const { from, to, points } of this.layout.edges) {
      const xs = points.map((point) => point.x);
      if (Math.max(...xs) < row.left || Math.min(...xs) > row.right) continue;
      picture.append(svg("path", { class: "edge", d: smooth(points), "data-from": from, "data-to": to }));
    }
    for (const strip of this.layout.strips) {
      const [left, right] = [Math.max(strip.left, row.left), Math.min(strip.right, row.right)];
      if (left >= right) continue;
      const y = top + LANE * row.lanes.indexOf(strip.lane) + 2;
      const name = visible(moduleLabel(strip.module));
      const group = svg(
        "g",
        {
          class: "strip",
          role: "button",
          tabindex: 0,
          "data-module": strip.module.path.join("."),
          "aria-label": `Collapse ${visible(strip.module.path.join("."))}`,
        },
        svg("rect", { x: left, y, width: right - left, height: LANE - 4, rx: 4 }),
        svg("text", { x: left + 6, y: y + 12 }, shorten(`− ${name}`, Math.max(3, Math.floor((right - left - 10) / 6)))),
      );
      press(group, () => {
        this.tree.collapse(strip.module);
        this.focused = this.tree.idOf(strip.module);
        this.update();
        this.moveFocus(this.focused, true);
      });
      picture.append(group);
    }
    for (const placed of this.layout.placed) {
      if (row.left < placed.x && placed.x < row.right) picture.append(this.drawPlaced(placed, most));
    }
    return picture;
  }

  private drawPlaced(placed: Placed, most: number): SVGElement {
    const { box } = placed;
    const facts = this.facts.get(box)!;
    const name = visible(box.node ? box.node.name : box.module!.path.join("."));
    const kind = box.module ? "module" : box.node!.kind;
    const group = svg(
      "g",
      {
        class: `box ${kind}${facts.uncounted ? " uncounted" : ""}${facts.mark ? " marked" : ""}`,
        transform: `translate(${placed.x},${placed.y})`,
        tabindex: -1,
        role: facts.counts ? "button" : "img",
        "aria-expanded": box.module ? "false" : undefined,
        "aria-label": summarize(kind, name, facts),
        "data-box": box.id,
        "data-kind": kind,
        "data-name": name,
      },
      svg("rect", {
        class: "area",
        x: -placed.width / 2,
        y: -placed.height / 2,
        width: placed.width,
        height: placed.height,
        rx: 6,
      }),
      ...drawBox(box, facts, most),
    );
    addTip(group, () => describe(name, subtitle(box, facts.layers, this.layers), facts.counts, facts.uncounted));
    press(group, () => {
      if (box.module) {
        this.tree.expand(box.module);
        this.focused = `n${box.nodes[0]}`;
        this.update();
        this.moveFocus(this.focused, true);
      } else if (this.layers.has(box.node!.name)) {
        this.open(box.node!.name);
      }
    });
    group.addEventListener("keydown", (event) => this.moveByKey(event, box.id));
    group.addEventListener("focus", () => (this.focused = box.id));
    return group;
  }

  private moveByKey(event: KeyboardEvent, id: string): void {
    const ids = this.layout.placed.map(({ box }) => box.id);
    const at = ids.indexOf(id);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: ids.length - 1 }[event.key];
    if (next === undefined || ids[next] === undefined) return;
    event.preventDefault();
    this.moveFocus(ids[next], true);
  }

  /** Make one box reachable by Tab; arrow keys lead to the others. */
  private moveFocus(id: string, focus: boolean): void {
    const boxes = [...this.picture.querySelectorAll<SVGElement>(".box")];
    const chosen = boxes.find((box) => box.dataset.box === id) ?? boxes[0];
    for (const box of boxes) box.setAttribute("tabindex", box === chosen ? "0" : "-1");
    if (focus) chosen?.focus();
  }

  private drawLegend(): void {
    const counts = [...this.facts.values()].flatMap((facts) => (facts.counts ? [facts.counts] : []));
    const kinds = KINDS.slice(1).filter((kind) => counts.some((each) => each[kind]));
    const swatch = (shape: string, label: string) =>
      element(
        "span",
        {},
        svg(
          "svg",
          { width: 16, height: 14, "aria-hidden": "true" },
          svg("rect", { class: shape, x: 1, y: 1, width: 14, height: 12, rx: 2 }),
        ),
        ` ${label}`,
      );
    document
      .getElementById("network-legend")!
      .replaceChildren(
        swatch("k-active", "active"),
        ...kinds.map((kind) => swatch(`hatch k-${kind.replace("_", "-")}`, kind.replace("_", "-"))),
        swatch("all", "pruned"),
      );
  }
}

function heightOf(row: Row): number {
  return row.bottom - row.top + LANE * row.lanes.length;
}

function press(target: SVGElement, act: () => void): void {
  target.addEventListener("click", act);
  target.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  });
}

function summarize(kind: string, name: string, facts: Facts): string {
  const counts: Counts | null = facts.counts;
  const numbers = counts ? `: ${thousands(counts.active)} of ${thousands(counts.kept)} kept connections active` : "";
  return `${kind} ${name}${numbers}${facts.mark ? `, ${facts.mark}` : ""}`;
}

function subtitle(box: Box, count: number, layers: Map<string, { layer: Layer; counted: boolean }>): string {
  if (box.module) return `module with ${count} ${count === 1 ? "layer" : "layers"}`;
  const found = layers.get(box.node!.name);
  return found && box.node!.kind === "layer" ? `${found.layer.op} ${found.layer.shape.join("x")}` : box.node!.kind;
}
