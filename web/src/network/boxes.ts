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

/** What is known of a box: its connections, if it has any, and a mark such as "narrowest". */
export interface Facts {
  counts: Counts | null;
  uncounted: boolean;
  mark: string;
}

export function sizeOf(box: Box, facts: Facts): Size {
  if (facts.counts) return { width: WIDE, height: TALL + LABELS + (facts.mark ? MARK : 0) };
  return box.node?.kind === "junction" ? { width: 26, height: 26 } : { width: 64, height: 30 };
}

/** Return where edges meet a box: half the width of its shape, and how far that is below the middle. */
export function anchorOf(box: Box, facts: Facts): { half: number; below: number } {
  if (facts.counts) return { half: COLUMN / 2, below: ((facts.mark ? MARK : 0) - LABELS) / 2 };
  return { half: box.node?.kind === "junction" ? 11 : 30, below: 0 };
}

/** Return the shapes of a box around the origin. `most` is the number of connections of the tallest column. */
export function drawBox(box: Box, facts: Facts, most: number): SVGElement[] {
  if (facts.counts) return drawColumn(box, facts, facts.counts, most);
  const label = visible(box.label);
  if (box.node?.kind === "junction") {
    const symbol = SYMBOLS[label] ?? "?";
    return [svg("circle", { class: "junction", r: 11 }), svg("text", { class: "symbol", y: 5 }, symbol)];
  }
  return [
    svg("rect", { class: "end", x: -30, y: -13, width: 60, height: 26, rx: 13 }),
    svg("text", { class: "symbol word", y: 4 }, shorten(label, 9)),
  ];
}

function drawColumn(box: Box, facts: Facts, counts: Counts, most: number): SVGElement[] {
  const half = sizeOf(box, facts).height / 2;
  const { below } = anchorOf(box, facts);
  const left = -COLUMN / 2;
  const all = tall(counts.connections, most);
  const bottom = below + all / 2;
  const bar = (kind: string, height: number, from: number) =>
    svg("rect", { class: kind, x: left, y: bottom - from - height, width: COLUMN, height });
  const shapes: SVGElement[] = [];
  if (box.module) {
    shapes.push(svg("rect", { class: "all behind", x: left + 4, y: bottom - all - 4, width: COLUMN, height: all, rx: 3 }));
  }
  const active = tall(counts.active, most);
  const dead = tall(counts.kept, most) - active;
  shapes.push(svg("rect", { class: "all", x: left, y: bottom - all, width: COLUMN, height: all, rx: 2 }), bar("k-active", active, 0));
  let from = active;
  for (const kind of KINDS.slice(1)) {
    // The reasons share the dead part of the column.
    const height = dead && (dead * counts[kind]) / (counts.kept - counts.active);
    if (height) shapes.push(bar(`hatch k-${kind.replace("_", "-")}`, height, from));
    from += height;
  }
  shapes.push(
    svg("text", { class: "label", y: half - 17 }, shorten(visible(box.label), 14)),
    svg("text", { class: "count", y: half - 4 }, counts.kept ? `${short(counts.active)} active` : "all pruned"),
  );
  if (facts.mark) shapes.push(svg("text", { class: "mark", y: -half + 11 }, facts.mark));
  return shapes;
}

function tall(number: number, most: number): number {
  return number ? Math.max(2, (TALL * Math.log1p(number)) / Math.log1p(most)) : 0;
}
