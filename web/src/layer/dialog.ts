// A layer opened: a dialog with its numbers, the image of its weight, and small charts.
import { type Picture, type PictureKind } from "../data";
import { button, element } from "../dom";
import { thousands, visible } from "../text";
import { hideTip } from "../tip";
import { Cells, label, unpack } from "./cells";
import { drawHistogram, drawPositions } from "./charts";
import { LayerImage } from "./image";

/** A layer that can be opened. `numbers` are for a layer without a row in the table; `missing` says why there is no picture. */
export interface OpenLayer {
  name: string;
  facts: string[];
  picture?: Picture;
  numbers?: [string, string][];
  missing?: string;
}

export class LayerDialog {
  private readonly dialog = document.getElementById("layer") as HTMLDialogElement;
  private readonly rows: HTMLTableRowElement[];
  private readonly titles: string[];
  private readonly hidden = new Set<PictureKind>();
  private at = 0;

  /** `layers` are those of the rows of the page's table, in order, and may be more; `hint` explains what is drawn. */
  constructor(
    private readonly layers: OpenLayer[],
    private readonly hint = "",
  ) {
    const table = document.querySelector<HTMLTableElement>("#layers table")!;
    this.rows = [...table.tBodies[0]!.rows];
    this.titles = [...table.tHead!.rows[0]!.cells].map((cell) => cell.textContent ?? "");
    this.rows.forEach((row, at) => this.addOpening(row, at));
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    this.dialog.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
    this.dialog.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) this.show(this.at + step);
    });
  }

  /** Open a layer by a click on its row, or by the button that its name becomes. */
  private addOpening(row: HTMLTableRowElement, at: number): void {
    const name = row.cells[0]!;
    const open = button("", { class: "open" }, () => this.open(at));
    open.append(...name.childNodes);
    name.append(open);
    row.classList.add("opens");
    row.addEventListener("click", (event) => {
      if ((event.target as Element).closest("button") || getSelection()?.toString()) return;
      this.open(at);
    });
  }

  /** Open the layer that the address names. */
  openLinked(): void {
    const linked = /^#layer-(\d+)$/.exec(location.hash);
    if (linked) this.open(Number(linked[1]));
  }

  openByName(name: string): void {
    this.open(this.layers.findIndex((layer) => layer.name === name));
  }

  open(at: number): void {
    if (!this.layers[at]) return;
    hideTip();
    if (!this.dialog.open) this.dialog.showModal();
    this.show(at);
  }

  private show(at: number): void {
    const layer = this.layers[at];
    if (!layer) return;
    this.at = at;
    history.replaceState(null, "", `#layer-${at}`);
    const focused = document.activeElement?.id;
    this.dialog.replaceChildren(this.buildHeader(layer, at), this.buildNumbers(layer, at));
    this.dialog.dataset.layer = String(at);
    this.dialog.scrollTop = 0;
    if (layer.picture) void this.showPicture(layer, layer.picture);
    else
      this.dialog.append(
        element("p", { class: "hint" }, layer.missing ?? "There is no image of this layer in the page."),
      );
    (document.getElementById(focused ?? "") ?? document.getElementById("layer-close"))?.focus();
  }

  private buildHeader(layer: OpenLayer, at: number): HTMLElement {
    const step = (text: string, id: string, by: number, name: string) =>
      button(text, { id, "aria-label": name, title: name, disabled: !this.layers[at + by] }, () =>
        this.show(this.at + by),
      );
    return element(
      "header",
      {},
      element(
        "div",
        { class: "title" },
        element("h2", { id: "layer-name" }, visible(layer.name)),
        element(
          "p",
          { class: "facts" },
          ...[...layer.facts, `${at + 1} of ${this.layers.length}`].map((fact) => element("span", {}, fact)),
        ),
      ),
      element(
        "div",
        { class: "tools" },
        step("←", "layer-previous", -1, "Previous layer"),
        step("→", "layer-next", 1, "Next layer"),
        button("Close", { id: "layer-close" }, () => this.dialog.close()),
      ),
    );
  }

  /** Return the cells of the layer's row, with the numbers as every format shows them. */
  private buildNumbers(layer: OpenLayer, at: number): HTMLElement {
    const row = this.rows[at];
    const pairs =
      layer.numbers ?? this.titles.map((title, i) => [title, row?.cells[i]?.textContent?.trim() ?? ""]).slice(1);
    const list = element("dl", { class: "numbers" });
    for (const [title, text] of pairs) {
      if (text && title !== "op" && title !== "shape")
        list.append(element("div", {}, element("dt", {}, title!), element("dd", {}, text)));
    }
    return list;
  }

  private async showPicture(layer: OpenLayer, picture: Picture): Promise<void> {
    const cells = new Cells(picture, await unpack(picture));
    const image = new LayerImage(cells, (kind) => !this.hidden.has(kind));
    const charts = element("div", { class: "charts" });
    if (picture.positions) charts.append(await drawPositions(picture.positions));
    charts.append(
      drawHistogram("Fan-in: outputs by their number of connections, kept (grey) and active (blue)", picture.fan_in),
      drawHistogram("Fan-out: inputs by their number of connections, kept (grey) and active (blue)", picture.fan_out),
    );
    if (this.layers[this.at] !== layer) return;
    this.dialog.append(this.buildLegend(cells, image), image.root, charts);
    if (this.hint) this.dialog.append(element("p", { class: "hint" }, this.hint));
    image.show();
    this.dialog.dataset.loaded = String(this.at);
  }

  /** Return a button per kind, with its number of connections, that shows or hides the kind. */
  private buildLegend(cells: Cells, image: LayerImage): HTMLElement {
    const { kinds, rows, columns } = cells.picture;
    const legend = element("div", {
      class: "legend",
      id: "layer-legend",
      role: "group",
      "aria-label": "Kinds of connections",
    });
    let pruned = rows * columns;
    for (const kind of kinds) {
      const number = cells.total(kind);
      if (kind !== "carrier") pruned -= number;
      const toggle = button(
        "",
        { class: "kind", "data-kind": kind, "aria-pressed": String(!this.hidden.has(kind)) },
        () => {
          if (!this.hidden.delete(kind)) this.hidden.add(kind);
          toggle.setAttribute("aria-pressed", String(!this.hidden.has(kind)));
          image.repaint();
        },
      );
      toggle.append(
        element("i", { class: `swatch k-${kind.replace("_", "-")}` }),
        `${label(kind)} `,
        element("b", {}, thousands(number)),
      );
      legend.append(toggle);
    }
    legend.append(
      element(
        "span",
        { class: "kind" },
        element("i", { class: "swatch k-pruned" }),
        "pruned ",
        element("b", {}, thousands(pruned)),
      ),
    );
    return legend;
  }
}
