// Colours of cells: a mix of the kinds under a cell, weighted by their counts, the stronger the more are kept.
import { type PictureKind } from "../data";
import { element } from "../dom";
import { type Cells } from "./cells";

type Colour = [number, number, number];
const FAINTEST = 0.4;

/** Return colours of the current theme by name. */
function readColours(names: string[]): (name: string) => Colour {
  const probe = element("i", { hidden: true });
  document.body.append(probe);
  const known = new Map<string, Colour>();
  for (const name of names) {
    probe.style.backgroundColor = `var(--es-${name.replace("_", "-")})`;
    known.set(
      name,
      getComputedStyle(probe)
        .backgroundColor.match(/[\d.]+/g)!
        .slice(0, 3)
        .map(Number) as Colour,
    );
  }
  probe.remove();
  return (name) => known.get(name)!;
}

/** Paint one pixel per cell. Kinds that are not shown look pruned. */
export function paintCells(canvas: HTMLCanvasElement, cells: Cells, shown: (kind: PictureKind) => boolean): void {
  const colours = readColours([...cells.picture.kinds, "pruned"]);
  const kinds = cells.picture.kinds.filter((kind) => kind !== "carrier" && shown(kind));
  const pruned = colours("pruned");
  const total = cells.width * cells.height;
  const densities = new Float32Array(total);
  let densest = 0;
  for (let cell = 0; cell < total; cell++) {
    let kept = 0;
    for (const kind of kinds) kept += cells.count(kind, cell);
    densities[cell] = kept / cells.size(cell);
    densest = Math.max(densest, densities[cell]!);
  }
  paint(canvas, cells.width, cells.height, (cell) => {
    const density = densities[cell]!;
    if (!density) return pruned;
    const strength = Math.max(FAINTEST, Math.sqrt(density / densest));
    return mix(pruned, mixKinds(cells, cell, kinds, shown("carrier"), colours), strength);
  });
}

function mixKinds(
  cells: Cells,
  cell: number,
  kinds: PictureKind[],
  carriers: boolean,
  colours: (name: string) => Colour,
): Colour {
  const sum: Colour = [0, 0, 0];
  let kept = 0;
  let inactive = 0;
  for (const kind of kinds) {
    const n = cells.count(kind, cell);
    if (!n) continue;
    kept += n;
    if (kind !== "active") inactive += n;
    colours(kind).forEach((value, i) => (sum[i]! += n * value));
  }
  const mixed = sum.map((value) => value / kept) as Colour;
  const carrier = carriers ? Math.min(cells.count("carrier", cell), inactive) : 0;
  return carrier ? mix(mixed, colours("carrier"), carrier / kept) : mixed;
}

/** Paint shares between 0 and 1, from the colour of what is pruned to another. */
export function paintShares(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  share: (cell: number) => number,
  colour: string,
): void {
  const colours = readColours([colour, "pruned"]);
  paint(canvas, width, height, (cell) => {
    const value = share(cell);
    return value ? mix(colours("pruned"), colours(colour), Math.max(FAINTEST, value)) : colours("pruned");
  });
}

function paint(canvas: HTMLCanvasElement, width: number, height: number, colour: (cell: number) => Colour): void {
  [canvas.width, canvas.height] = [width, height];
  const image = new ImageData(width, height);
  for (let cell = 0; cell < width * height; cell++) image.data.set([...colour(cell), 255], 4 * cell);
  canvas.getContext("2d")!.putImageData(image, 0, 0);
}

function mix(from: Colour, to: Colour, share: number): Colour {
  return from.map((value, i) => value + (to[i]! - value) * share) as Colour;
}
