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

/** A part of the picture between two ranks. */
export interface Row {
  left: number;
  right: number;
  top: number;
  bottom: number;
  lanes: number[];
}

const MARGIN = 12;

/** `anchor` says where edges meet a box. */
export function place(visible: Visible, size: (box: Box) => Size, anchor: (box: Box) => { half: number; below: number }): Layout {
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
    const { half, below } = anchor(box);
    return { x: towards.x < x ? x - half : x + half, y: y + below };
  };
  const edges = visible.edges.map(([from, to]) => {
    const { points } = graph.edge(from, to) as { points: Point[] };
    // The first and last point are on the borders that dagre knows, which include labels.
    const inner = points.slice(1, -1);
    return { from, to, points: [end(from, inner[0]!), ...inner, end(to, inner.at(-1)!)] };
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

/** Break the picture between ranks into rows of at most `width`. */
export function fold(layout: Layout, width: number): Row[] {
  const ranks = [...new Map(layout.placed.map((each) => [Math.round(each.x), each.x])).values()].sort((a, b) => a - b);
  const spans = ranks.map((x) => {
    const half = Math.max(...layout.placed.filter((each) => Math.abs(each.x - x) < 1).map((each) => each.width / 2));
    return { left: x - half, right: x + half };
  });
  const rows: Row[] = [];
  let start = 0;
  for (let i = 0; i < spans.length; i++) {
    const left = start ? (spans[start - 1]!.right + spans[start]!.left) / 2 : spans[0]!.left - MARGIN;
    const next = spans[i + 1];
    if (next && next.right + MARGIN - left <= width) continue;
    const right = next ? (spans[i]!.right + next.left) / 2 : spans[i]!.right + MARGIN;
    rows.push({ left, right, ...findHeight(layout, left, right), lanes: findLanes(layout, left, right) });
    start = i + 1;
  }
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
