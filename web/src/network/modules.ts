// The modules of a network as a tree, and the graph that is left when some of them are collapsed into one box each.
import { type Network, type NetworkNode } from "../data";

const MANY = 40;
const FEW = 6;
const TOO_MANY = 250;

export interface Module {
  /** Names from the root; a module with a single child is left out of the tree. */
  path: string[];
  parent: Module | null;
  modules: Module[];
  leaves: number[];
}

/** One box of the picture: a node of the network, or a collapsed module. */
export interface Box {
  id: string;
  label: string;
  node: NetworkNode | null;
  module: Module | null;
  /** All nodes of the network in it. */
  nodes: number[];
  parent: Module;
}

export interface Visible {
  boxes: Box[];
  edges: [string, string][];
  expanded: Module[];
}

export class ModuleTree {
  readonly root: Module;
  private readonly expanded = new Set<Module>();

  constructor(private readonly network: Network) {
    this.root = simplify(buildTree(network.nodes), null);
    this.expanded.add(this.root);
    this.expandInitially();
  }

  /** Expand level by level, as long as the picture stays small. */
  private expandInitially(): void {
    for (;;) {
      const collapsed = this.collapsed();
      const before = this.countBoxes();
      if (!collapsed.length) return;
      for (const module of collapsed) this.expanded.add(module);
      const after = this.countBoxes();
      if (after <= MANY || (before <= FEW && after <= TOO_MANY)) continue;
      for (const module of collapsed) this.expanded.delete(module);
      return;
    }
  }

  /** Return the name of a node that is a layer, else an empty text. */
  nameOf(node: number): string {
    const { kind, name } = this.network.nodes[node]!;
    return kind === "layer" ? name : "";
  }

  /** Return the id of the box of a collapsed module. */
  idOf(module: Module): string {
    return `m${allLeaves(module)[0]}`;
  }

  expand(module: Module): void {
    this.expanded.add(module);
  }

  collapse(module: Module): void {
    this.expanded.delete(module);
  }

  expandAll(): void {
    for (const module of allModules(this.root)) this.expanded.add(module);
  }

  collapseAll(): void {
    this.expanded.clear();
    this.expanded.add(this.root);
  }

  get canExpand(): boolean {
    return this.collapsed().length > 0;
  }

  get canCollapse(): boolean {
    return this.expandedModules().length > 0;
  }

  private isShown(module: Module): boolean {
    return module.parent === null || (this.expanded.has(module.parent) && this.isShown(module.parent));
  }

  private collapsed(): Module[] {
    return allModules(this.root).filter((module) => !this.expanded.has(module) && this.isShown(module));
  }

  private expandedModules(): Module[] {
    return allModules(this.root).filter((each) => each !== this.root && this.expanded.has(each) && this.isShown(each));
  }

  private countBoxes(): number {
    const shown = allModules(this.root).filter((module) => this.expanded.has(module) && this.isShown(module));
    return this.collapsed().length + shown.reduce((sum, module) => sum + module.leaves.length, 0);
  }

  /** Return the boxes that are shown, in the order of the network, and the edges between them. */
  visible(): Visible {
    const boxOf = new Map<number, Box>();
    for (const module of allModules(this.root)) {
      if (!this.isShown(module)) continue;
      if (!this.expanded.has(module)) {
        const nodes = allLeaves(module);
        const box = {
          id: this.idOf(module),
          label: moduleLabel(module),
          node: null,
          module,
          nodes,
          parent: module.parent!,
        };
        for (const node of nodes) boxOf.set(node, box);
        continue;
      }
      for (const leaf of module.leaves) {
        const node = this.network.nodes[leaf]!;
        boxOf.set(leaf, {
          id: `n${leaf}`,
          label: leafLabel(node, module),
          node,
          module: null,
          nodes: [leaf],
          parent: module,
        });
      }
    }
    const boxes = [...new Set(this.network.nodes.map((_, i) => boxOf.get(i)!))];
    const edges = new Map<string, [string, string]>();
    for (const [from, to] of this.network.edges) {
      const ends: [string, string] = [boxOf.get(from)!.id, boxOf.get(to)!.id];
      if (ends[0] !== ends[1]) edges.set(ends.join(), ends);
    }
    return { boxes, edges: [...edges.values()], expanded: this.expandedModules() };
  }
}

function buildTree(nodes: NetworkNode[]): Module {
  const root: Module = { path: [], parent: null, modules: [], leaves: [] };
  const known = new Map<string, Module>();
  nodes.forEach((node, i) => {
    let at = root;
    const path = node.kind === "input" || node.kind === "output" ? [] : node.module;
    path.forEach((_, depth) => {
      const here = path.slice(0, depth + 1);
      const key = JSON.stringify(here);
      let next = known.get(key);
      if (!next) {
        next = { path: here, parent: at, modules: [], leaves: [] };
        known.set(key, next);
        at.modules.push(next);
      }
      at = next;
    });
    at.leaves.push(i);
  });
  return root;
}

/** Replace each module with a single child by that child. */
function simplify(module: Module, parent: Module | null): Module {
  const kept: Module = { path: module.path, parent, modules: [], leaves: [...module.leaves] };
  for (let child of module.modules) {
    while (child.modules.length === 1 && !child.leaves.length) child = child.modules[0]!;
    if (!child.modules.length && child.leaves.length === 1) kept.leaves.push(child.leaves[0]!);
    else kept.modules.push(simplify(child, kept));
  }
  kept.leaves.sort((a, b) => a - b);
  return kept;
}

function allModules(root: Module): Module[] {
  return [root, ...root.modules.flatMap(allModules)];
}

export function allLeaves(module: Module): number[] {
  return [...module.leaves, ...module.modules.flatMap(allLeaves)].sort((a, b) => a - b);
}

/** Return the last part of a module's path; a number alone says too little. */
export function moduleLabel(module: Module): string {
  const above = module.parent?.path.length ?? 0;
  const rest = module.path.slice(above);
  return (rest.every((part) => /^\d+$/.test(part)) ? module.path.slice(-rest.length - 1) : rest).join(".");
}

function leafLabel(node: NetworkNode, module: Module): string {
  if (node.kind !== "layer") return node.name;
  const parts = node.name.split(/[./]+/).filter(Boolean);
  const rest = parts.slice(module.path.length);
  const named = rest.length > 1 && rest.at(-1) === "weight" ? rest.slice(0, -1) : rest;
  return (named.length ? named : parts).join(".");
}
