// Places boxes from left to right with dagre, and folds the picture into rows like lines of text, so that a deep
// network needs no sideways scrolling.
import { Graph, layout as placeGraph } from "@dagrejs/dagre";
import { type Box, type Module, type Visible, allLeaves } from "./modules";

export interface Size {
  width: number;
  height: number;
}

export interface Placed extends Size {
  box: Box;
  x: number;
  y: number;
}

export interface Point {
  x: number;
  y: number;
}

/** The extent of an expanded module, in a lane above the boxes; outer modules have higher lanes. */
export interface Strip {
  module: Module;
  left: number;
  right: number;
  lane: number;
}

export interface Layout {
  placed: Placed[];
  edges: { from: string; to: string; points: Point[] }[];
  strips: Strip[];
}

interface Span {
  left: number;
  right: number;
}

/** A part of the picture between two ranks. */
export interface Row extends Span {
  top: number;
  bottom: number;
  lanes: number[];
}

const MARGIN = 12;

/** `half` is half the width of the shape that edges meet, and `raised` how far it is above the middle of its box. */
export function place(visible: Visible, size: (box: Box) => Size, half: (box: Box) => number, raised: number): Layout {
  const graph = new Graph({ directed: true, multigraph: false, compound: false });
  graph.setGraph({ rankdir: "LR", nodesep: 16, edgesep: 10, ranksep: 24 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of visible.boxes) graph.setNode(box.id, { ...size(box) });
  for (const [from, to] of visible.edges) graph.setEdge(from, to);
  placeGraph(graph);
  const placed = visible.boxes.map((box) => {
    const { x, y, width, height } = graph.node(box.id) as Point & Size;
    return { box, x, y, width, height };
  });
  const placeOf = new Map(placed.map((each) => [each.box.id, each]));
  const end = (id: string, towards: Point): Point => {
    const { box, x, y } = placeOf.get(id)!;
    return { x: towards.x < x ? x - half(box) : x + half(box), y };
  };
  const edges = visible.edges.map(([from, to]) => {
    // The first and last point are on the borders that dagre knows, which include labels.
    const inner = (graph.edge(from, to) as { points: Point[] }).points.slice(1, -1);
    const points = [end(from, inner[0]!), ...inner, end(to, inner.at(-1)!)];
    return { from, to, points: points.map(({ x, y }) => ({ x, y: y - raised })) };
  });
  return { placed, edges, strips: findStrips(visible.expanded, placed) };
}

function findStrips(expanded: Module[], placed: Placed[]): Strip[] {
  const strips: Strip[] = [];
  const lanes = new Map<Module, number>();
  for (const module of expanded) {
    const leaves = new Set(allLeaves(module));
    const inside = placed.filter(({ box }) => box.nodes.every((node) => leaves.has(node)));
    const left = Math.min(...inside.map(({ x, width }) => x - width / 2));
    const right = Math.max(...inside.map(({ x, width }) => x + width / 2));
    let lane = (module.parent && lanes.get(module.parent) !== undefined ? lanes.get(module.parent)! : -1) + 1;
    // Branches side by side may overlap: the next free lane.
    while (strips.some((other) => other.lane === lane && other.left < right && left < other.right)) lane++;
    lanes.set(module, lane);
    strips.push({ module, left, right, lane });
  }
  return strips;
}

/** Break the picture between ranks into as few rows of at most `width` as possible, of about the same length. */
export function fold(layout: Layout, width: number): Row[] {
  const spans = findSpans(layout.placed);
  const count = breakSpans(spans, width).length;
  let [low, high] = [0, width];
  while (high - low > 4) {
    const middle = (low + high) / 2;
    if (breakSpans(spans, middle).length > count) low = middle;
    else high = middle;
  }
  return breakSpans(spans, high).map(({ left, right }) => ({
    left,
    right,
    ...findHeight(layout, left, right),
    lanes: findLanes(layout, left, right),
  }));
}

/** Return the extent of each rank, from left to right. */
function findSpans(placed: Placed[]): Span[] {
  const halves = new Map<number, number>();
  for (const { x, width } of placed) {
    const rank = Math.round(x);
    halves.set(rank, Math.max(halves.get(rank) ?? 0, width / 2));
  }
  return [...halves].sort(([a], [b]) => a - b).map(([x, half]) => ({ left: x - half, right: x + half }));
}

function breakSpans(spans: Span[], width: number): Span[] {
  const rows: Span[] = [];
  let start = 0;
  spans.forEach((span, i) => {
    const left = start ? (spans[start - 1]!.right + spans[start]!.left) / 2 : spans[0]!.left - MARGIN;
    const next = spans[i + 1];
    if (next && next.right + MARGIN - left <= width) return;
    rows.push({ left, right: next ? (span.right + next.left) / 2 : span.right + MARGIN });
    start = i + 1;
  });
  return rows;
}

function findHeight(layout: Layout, left: number, right: number): { top: number; bottom: number } {
  const ys: number[] = [];
  for (const { x, y, height } of layout.placed) if (left < x && x < right) ys.push(y - height / 2, y + height / 2);
  for (const { points } of layout.edges) {
    points.forEach((point, i) => {
      const next = points[i + 1] ?? point;
      if (Math.max(point.x, next.x) >= left && Math.min(point.x, next.x) <= right) ys.push(point.y, next.y);
    });
  }
  return { top: Math.min(...ys) - 8, bottom: Math.max(...ys) + 8 };
}

function findLanes(layout: Layout, left: number, right: number): number[] {
  const lanes = layout.strips.filter((strip) => strip.left < right && left < strip.right).map((strip) => strip.lane);
  return [...new Set(lanes)].sort((a, b) => a - b);
}

/** Return a smooth SVG path through points that run mostly from left to right. */
export function smooth(points: Point[]): string {
  const [first, ...rest] = points as [Point, ...Point[]];
  let path = `M${round(first.x)},${round(first.y)}`;
  let last = first;
  for (const point of rest) {
    const middle = round((last.x + point.x) / 2);
    path += `C${middle},${round(last.y)} ${middle},${round(point.y)} ${round(point.x)},${round(point.y)}`;
    last = point;
  }
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
