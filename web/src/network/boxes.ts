// Draws one box of the network: a layer or a collapsed module as a column of connections, a junction as a circle.
import { type Counts, KINDS } from "../data";
import { svg } from "../dom";
import { short, shorten, visible } from "../text";
import { type Size } from "./layout";
import { type Box } from "./modules";

const TALL = 64;
const WIDE = 80;
const LABELS = 32;
const COLUMN = 40;
const MARK = 16;
const SYMBOLS: Record<string, string> = { add: "+", multiply: "×", concat: "‖", scan: "↻" };

/** What is known of a box: its connections, if it has any, the number of its layers, and a mark such as "narrowest". */
export interface Facts {
  counts: Counts | null;
  layers: number;
  uncounted: boolean;
  mark: string;
}

/** Labels need more room below than above: shapes and edges are this far above the middle of a box. */
export const RAISED = (LABELS - MARK) / 2;

export function sizeOf(box: Box, facts: Facts): Size {
  if (facts.counts) return { width: WIDE, height: TALL + LABELS + MARK };
  return box.node?.kind === "junction"
    ? { width: 26, height: 26 + 2 * RAISED }
    : { width: 64, height: 30 + 2 * RAISED };
}

/** Return half the width of the shape that edges meet. */
export function halfOf(box: Box, facts: Facts): number {
  return facts.counts ? COLUMN / 2 : box.node?.kind === "junction" ? 11 : 30;
}

/** Return the shapes of a box around the origin. `most` is the number of connections of the tallest column. */
export function drawBox(box: Box, facts: Facts, most: number): SVGElement[] {
  if (facts.counts) return drawColumn(box, facts, facts.counts, most);
  const label = visible(box.label);
  if (box.node?.kind === "junction") {
    const symbol = SYMBOLS[label] ?? "?";
    return [
      svg("circle", { class: "junction", cy: -RAISED, r: 11 }),
      svg("text", { class: "symbol", y: 5 - RAISED }, symbol),
    ];
  }
  return [
    svg("rect", { class: "end", x: -30, y: -13 - RAISED, width: 60, height: 26, rx: 13 }),
    svg("text", { class: "symbol word", y: 4 - RAISED }, shorten(label, 9)),
  ];
}

function drawColumn(box: Box, facts: Facts, counts: Counts, most: number): SVGElement[] {
  const half = sizeOf(box, facts).height / 2;
  const left = -COLUMN / 2;
  const all = tall(counts.connections, most);
  const bottom = all / 2 - RAISED;
  const bar = (kind: string, height: number, from: number) =>
    svg("rect", { class: kind, x: left, y: bottom - from - height, width: COLUMN, height });
  const shapes: SVGElement[] = [];
  if (box.module) {
    shapes.push(
      svg("rect", { class: "all behind", x: left + 4, y: bottom - all - 4, width: COLUMN, height: all, rx: 3 }),
    );
  }
  const active = tall(counts.active, most);
  const dead = tall(counts.kept, most) - active;
  shapes.push(bar("all", all, 0), bar("k-active", active, 0));
  let from = active;
  for (const kind of KINDS.slice(1)) {
    // The reasons share the dead part of the column.
    const height = dead && (dead * counts[kind]) / (counts.kept - counts.active);
    if (height) shapes.push(bar(`hatch k-${kind.replace("_", "-")}`, height, from));
    from += height;
  }
  shapes.push(
    bar("outline", all, 0),
    svg("text", { class: "label", y: half - 17 }, shorten(visible(box.label), 16)),
    svg("text", { class: "count", y: half - 4 }, counts.kept ? `${short(counts.active)} active` : "all pruned"),
  );
  if (facts.mark) shapes.push(svg("text", { class: "mark", y: -half + 11 }, facts.mark));
  return shapes;
}

function tall(number: number, most: number): number {
  return number ? Math.max(2, (TALL * Math.log1p(number)) / Math.log1p(most)) : 0;
}
