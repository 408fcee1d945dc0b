// Counts under the cells of a picture, and what they say in words.
import { type Picture, type PictureKind, type Positions } from "../data";
import { thousands } from "../text";

const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };
type Counts = Uint8Array | Uint16Array | Uint32Array;

/** Return the counts that a picture stores as base64 of zlib. */
export async function unpack(stored: Picture | Positions): Promise<Counts> {
  const bytes = Uint8Array.from(atob(stored.cells), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new ARRAYS[stored.type](await new Response(stream).arrayBuffer());
}

/** A matrix of outputs by inputs, averaged into cells, with a count of connections per cell and kind. */
export class Cells {
  readonly height: number;
  readonly width: number;
  private readonly planes = new Map<PictureKind, Counts>();

  constructor(
    readonly picture: Picture,
    counts: Counts,
  ) {
    [this.height, this.width] = picture.grid;
    const size = this.height * this.width;
    picture.kinds.forEach((kind, i) => this.planes.set(kind, counts.subarray(i * size, (i + 1) * size)));
  }

  count(kind: PictureKind, cell: number): number {
    return this.planes.get(kind)?.[cell] ?? 0;
  }

  /** Return the number of connections of a kind in the whole layer. */
  total(kind: PictureKind): number {
    let sum = 0;
    for (const n of this.planes.get(kind) ?? []) sum += n;
    return sum;
  }

  /** Return the number of connections under a cell; the last of a row or column may be cut by the border. */
  size(cell: number): number {
    const [[top, bottom], [left, right]] = this.extent(cell);
    return (bottom - top) * (right - left);
  }

  private extent(cell: number): [[number, number], [number, number]] {
    const { rows, columns, cell: step } = this.picture;
    const [i, j] = [Math.floor(cell / this.width), cell % this.width];
    return [
      [i * step[0], Math.min(rows, (i + 1) * step[0])],
      [j * step[1], Math.min(columns, (j + 1) * step[1])],
    ];
  }

  describe(cell: number): string {
    const { kernel, kinds } = this.picture;
    const [[top, bottom], [left, right]] = this.extent(cell);
    const size = (bottom - top) * (right - left);
    const where = [range("output", top, bottom, kernel[0]), range("input", left, right, kernel[1])];
    if (size === 1 && kernel[0] * kernel[1] > 1) where.push(`kernel ${top % kernel[0]},${left % kernel[1]}`);
    const found = kinds.map((kind) => ({ kind, n: this.count(kind, cell) })).filter(({ n }) => n);
    const kept = found.reduce((sum, { kind, n }) => (kind === "carrier" ? sum : sum + n), 0);
    if (size === 1) return `${where.join(", ")}: ${found.map(({ kind }) => label(kind)).join(", ") || "pruned"}`;
    const parts = found.map(({ kind, n }) => `${thousands(n)} ${label(kind)}`);
    if (size > kept) parts.push(`${thousands(size - kept)} pruned`);
    return `${where.join(", ")}: ${thousands(size)} connections, ${parts.join(", ")}`;
  }
}

const LABELS: Partial<Record<PictureKind, string>> = {
  carrier: "bias carrier",
  same: "active in both",
  inactive: "inactive in both",
  newly_dead: "newly dead",
};

export function label(kind: PictureKind): string {
  return LABELS[kind] ?? kind.replace("_", "-");
}

function range(noun: string, start: number, end: number, kernel: number): string {
  const [first, last] = [Math.floor(start / kernel), Math.floor((end - 1) / kernel)];
  return first === last ? `${noun} ${first}` : `${noun}s ${first} to ${last}`;
}
