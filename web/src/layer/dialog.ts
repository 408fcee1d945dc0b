// A layer opened: a dialog with its numbers, the image of its weight, and small charts.
import { KINDS, type Layer, type Picture, type PictureKind, type Report, countsOf } from "../data";
import { button, element } from "../dom";
import { thousands, visible } from "../text";
import { hideTip } from "../tip";
import { label } from "./cells";
import { drawHistogram, drawPositions } from "./charts";
import { LayerImage } from "./image";

export class LayerDialog {
  private readonly dialog = document.getElementById("layer") as HTMLDialogElement;
  private readonly layers: Layer[];
  private readonly hidden = new Set<PictureKind>();
  private at = 0;

  /** `rows` are the rows of the table, with the numbers as every format shows them. */
  constructor(
    report: Report,
    private readonly pictures: Map<string, Picture>,
    private readonly rows: HTMLTableRowElement[],
    private readonly titles: string[],
  ) {
    this.layers = [...report.layers, ...report.embeddings];
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    this.dialog.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
    this.dialog.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) this.show(this.at + step);
    });
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
    const picture = this.pictures.get(layer.name);
    history.replaceState(null, "", `#layer-${at}`);
    const focused = document.activeElement?.id;
    this.dialog.replaceChildren(this.buildHeader(layer, at), this.buildNumbers(layer, at));
    this.dialog.dataset.layer = String(at);
    this.dialog.scrollTop = 0;
    if (picture) void this.showPicture(layer, picture);
    else this.dialog.append(element("p", { class: "hint" }, "There is no image of this layer in the page."));
    (document.getElementById(focused ?? "") ?? document.getElementById("layer-close"))?.focus();
  }

  private buildHeader(layer: Layer, at: number): HTMLElement {
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
          element("span", {}, layer.op),
          element("span", {}, layer.shape.join(" x ")),
          element("span", {}, `${at + 1} of ${this.layers.length}`),
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

  /** Return the cells of the layer's row; an embedding table that does not count has no row. */
  private buildNumbers(layer: Layer, at: number): HTMLElement {
    const row = this.rows[at];
    const counts = countsOf(layer);
    const pairs = row
      ? this.titles.map((title, i) => [title, row.cells[i]?.textContent?.trim() ?? ""]).slice(1)
      : [
          ["weights", thousands(counts.connections)],
          ["kept", thousands(counts.kept)],
          ["active", thousands(counts.active)],
          ["counted", "no"],
        ];
    const list = element("dl", { class: "numbers" });
    for (const [title, text] of pairs) {
      if (text && title !== "op" && title !== "shape")
        list.append(element("div", {}, element("dt", {}, title!), element("dd", {}, text)));
    }
    return list;
  }

  private async showPicture(layer: Layer, picture: Picture): Promise<void> {
    const image = new LayerImage(picture, (kind) => !this.hidden.has(kind));
    const charts = element("div", { class: "charts" });
    if (picture.positions) charts.append(await drawPositions(picture.positions));
    charts.append(
      drawHistogram("Fan-in: outputs by their number of connections, kept (grey) and active (blue)", picture.fan_in),
      drawHistogram("Fan-out: inputs by their number of connections, kept (grey) and active (blue)", picture.fan_out),
    );
    if (this.layers[this.at] !== layer) return;
    this.dialog.append(this.buildLegend(layer, picture, image), image.root, charts);
    await image.load();
    this.dialog.dataset.loaded = String(this.at);
  }

  /** Return a button per kind, with its number of connections, that shows or hides the kind. */
  private buildLegend(layer: Layer, picture: Picture, image: LayerImage): HTMLElement {
    const counts = countsOf(layer);
    const legend = element("div", {
      class: "legend",
      id: "layer-legend",
      role: "group",
      "aria-label": "Kinds of connections",
    });
    for (const kind of [...KINDS, "carrier"] as PictureKind[]) {
      const number = kind === "carrier" ? counts.carriers : counts[kind];
      if (!picture.kinds.includes(kind)) continue;
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
        element("b", {}, thousands(counts.connections - counts.kept)),
      ),
    );
    return legend;
  }
}
