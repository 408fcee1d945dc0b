// The weight of a layer as an image: one pixel per cell, dead outputs and inputs on the margins, a cell cursor.
import { type Picture, type PictureKind } from "../data";
import { button, element } from "../dom";
import { type Cells } from "./cells";
import { paintCells, paintShares } from "./paint";

const LARGEST = 32;
const TALLEST = 1;
const STEPS: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

export class LayerImage {
  readonly root: HTMLElement;
  private readonly canvas = element("canvas");
  private readonly frame = element("div", {
    class: "frame",
    id: "layer-image",
    tabindex: 0,
    role: "application",
    "aria-label": "Weight image: rows are outputs, columns are inputs. Arrow keys move the cursor.",
    "aria-describedby": "layer-hover",
  });
  private readonly cursor = element("div", { class: "cursor", hidden: true });
  private readonly tiles = element("div", { class: "tiles" });
  private readonly margins = { top: element("canvas"), left: element("canvas") };
  private readonly hover = element(
    "output",
    { id: "layer-hover", "aria-live": "polite" },
    "Move over the image, or use the arrow keys.",
  );
  private readonly scroll = element("div", { class: "image-scroll" });
  private readonly picture: Picture;
  private at: [number, number] | undefined;
  private fitted = 1;
  private zoom = 1;

  constructor(
    private readonly cells: Cells,
    private readonly shown: (kind: PictureKind) => boolean,
  ) {
    this.picture = cells.picture;
    this.frame.append(this.canvas, this.tiles, this.cursor);
    const margin = (side: "top" | "left", title: string) =>
      element("div", { class: `margin ${side}`, title }, this.margins[side]);
    this.scroll.append(
      element("div", { class: "corner" }),
      margin("top", "Inputs without an active connection"),
      margin("left", "Dead outputs"),
      this.frame,
    );
    const zooms = element(
      "div",
      { class: "tools" },
      button("−", { "aria-label": "Smaller" }, () => this.setZoom(this.zoom / 2)),
      button("+", { "aria-label": "Larger" }, () => this.setZoom(this.zoom * 2)),
      button("Fit", {}, () => this.setZoom(this.fitted)),
    );
    this.root = element(
      "div",
      { class: "image" },
      element("div", { class: "heading" }, this.hover, zooms),
      this.scroll,
      element("p", { class: "hint" }, caption(this.picture)),
    );
    this.frame.addEventListener("pointermove", (event) => this.point(event));
    this.frame.addEventListener("keydown", (event) => this.moveByKey(event));
  }

  /** Paint. The element must be in the document, because the zoom depends on its width. */
  show(): void {
    const [height, width] = this.picture.grid;
    const room = Math.min((this.root.clientWidth - 24) / width, (TALLEST * innerHeight) / height, LARGEST);
    this.fitted = room >= 1 ? Math.floor(room) : room;
    paintShares(this.margins.top, width, 1, (j) => deadShare(this.picture, "columns", j), "dead");
    paintShares(this.margins.left, 1, height, (i) => deadShare(this.picture, "rows", i), "dead");
    this.repaint();
    this.setZoom(this.fitted);
  }

  repaint(): void {
    paintCells(this.canvas, this.cells, this.shown);
  }

  private setZoom(zoom: number): void {
    const [height, width] = this.picture.grid;
    this.zoom = Math.min(Math.max(zoom, 0.25), Math.max(LARGEST, this.fitted));
    const [across, down] = [`${width * this.zoom}px`, `${height * this.zoom}px`];
    Object.assign(this.frame.style, { width: across, height: down });
    this.margins.top.style.width = across;
    this.margins.left.style.height = down;
    this.canvas.classList.toggle("smooth", this.zoom < 1);
    const [tall, wide] = this.picture.kernel;
    const tiled = this.picture.cell[0] * this.picture.cell[1] === 1 && tall * wide > 1 && this.zoom >= 4;
    this.tiles.style.backgroundSize = tiled ? `${wide * this.zoom}px ${tall * this.zoom}px` : "0 0";
    this.showCursor();
  }

  private point(event: PointerEvent): void {
    const { left, top } = this.frame.getBoundingClientRect();
    this.moveTo(Math.floor((event.clientY - top) / this.zoom), Math.floor((event.clientX - left) / this.zoom));
  }

  private moveByKey(event: KeyboardEvent): void {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const far = event.shiftKey ? 10 : 1;
    const [i, j] = this.at ?? [0, 0];
    this.moveTo(i + (this.at ? far * step[0] : 0), j + (this.at ? far * step[1] : 0));
    this.cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  private moveTo(i: number, j: number): void {
    const { height, width } = this.cells;
    this.at = [Math.min(Math.max(i, 0), height - 1), Math.min(Math.max(j, 0), width - 1)];
    this.hover.textContent = this.cells.describe(this.at[0] * width + this.at[1]);
    this.showCursor();
  }

  private showCursor(): void {
    if (!this.at) return;
    this.cursor.hidden = false;
    const [top, left, side] = [this.at[0] * this.zoom, this.at[1] * this.zoom, Math.max(this.zoom, 3)];
    Object.assign(this.cursor.style, { top: `${top}px`, left: `${left}px`, width: `${side}px`, height: `${side}px` });
  }
}

/** Return the share of dead outputs under a row of cells, or of dead inputs under a column. */
function deadShare(picture: Picture, axis: "rows" | "columns", at: number): number {
  const side = axis === "rows" ? 0 : 1;
  const [step, kernel] = [picture.cell[side], picture.kernel[side]];
  const [all, dead] = axis === "rows" ? [picture.outputs, picture.dead_rows] : [picture.inputs, picture.dead_columns];
  const under = Math.min(Math.max(1, step / kernel), Math.max(1, all - at * Math.max(1, step / kernel)));
  // A neuron with several cells is counted in the first of them.
  const first = step < kernel ? at - (at % kernel) : at;
  return Math.min(1, (dead[first] ?? 0) / under);
}

function caption(picture: Picture): string {
  const [tall, wide] = picture.cell;
  const [high, broad] = picture.kernel;
  const tiles = high * broad > 1 ? `, each kernel a tile of ${high} x ${broad}` : "";
  const pixel =
    tall * wide === 1
      ? "one connection"
      : `${tall} x ${wide} connections; the stronger its colour, the more of them are kept`;
  return `Rows are ${picture.outputs} outputs, columns ${picture.inputs} inputs${tiles}. A pixel is ${pixel}. Marks on the margins are dead outputs, and inputs without an active connection.`;
}
