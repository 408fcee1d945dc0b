// The data in pages: the documents of `--format json` of `report` and `diff`, and what only the pictures need.

export const KINDS = ["active", "no_input", "no_output", "both", "padding"] as const;
export type Kind = (typeof KINDS)[number];
/** Kinds in pictures of two models. */
export type DiffKind = "same" | "gained" | "revived" | "lost" | "newly_dead" | "inactive";
/** Kinds in pictures: bias carriers are some of the inactive connections, the others are disjoint. */
export type PictureKind = Kind | DiffKind | "carrier";

export interface Layer {
  name: string;
  op: string;
  shape: number[];
  connections: number;
  kept: number;
  active: number;
  inactive: Record<Exclude<Kind, "active">, number>;
  bias_carriers: number;
}

export interface Report {
  model: string;
  layers: Layer[];
  embeddings: Layer[];
  cut: string | null;
  narrowest: string | null;
  neurons: Record<string, { all: number; dead: number }>;
  patterns: Record<string, string>;
}

export interface NetworkNode {
  kind: "input" | "output" | "layer" | "junction";
  name: string;
  module: string[];
}

export interface Network {
  nodes: NetworkNode[];
  edges: [number, number][];
}

export interface Histogram {
  edges: number[];
  kept: number[];
  active: number[];
}

type Cells = { grid: [number, number]; cell: [number, number]; type: "u1" | "u2" | "u4"; cells: string };

export interface Positions extends Cells {
  height: number;
  width: number;
  channels: number;
}

export interface Picture extends Cells {
  rows: number;
  columns: number;
  kernel: [number, number];
  kinds: PictureKind[];
  dead_rows: number[];
  dead_columns: number[];
  outputs: number;
  inputs: number;
  fan_in: Histogram;
  fan_out: Histogram;
  positions: Positions | null;
}

/** A layer in the document of `effsparse diff`. */
export interface DiffLayer {
  name: string;
  op: string;
  shape: number[];
}

export interface Diff {
  before: string;
  after: string;
  layers: { before: DiffLayer; after: DiffLayer; gained: number | null }[];
  only_before: DiffLayer[];
  only_after: DiffLayer[];
}

export interface View {
  network: Network | null;
  pictures: Record<string, Picture>;
}

export type Counts = Record<"connections" | "kept" | Kind | "carriers", number>;

export function read<T>(id: string): T {
  return JSON.parse(document.getElementById(id)!.textContent!) as T;
}

export function countsOf(layer: Layer): Counts {
  const { connections, kept, active, inactive, bias_carriers: carriers } = layer;
  return { connections, kept, active, ...inactive, carriers };
}

export function add(a: Counts, b: Counts): Counts {
  const sum = { ...a };
  for (const key of Object.keys(sum) as (keyof Counts)[]) sum[key] += b[key];
  return sum;
}
