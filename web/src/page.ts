// The page: its theme, the network, and layers that open. The table is enhanced by table.ts.
import { type Report, type View, read } from "./data";
import { button } from "./dom";
import { LayerDialog } from "./layer/dialog";
import { NetworkSection } from "./network/section";

const report = read<Report>("effsparse-report");
const view = read<View>("effsparse-view");

function addTheme(): void {
  const toggle = document.getElementById("theme") as HTMLButtonElement;
  const dark = () =>
    (document.documentElement.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const show = () => {
    toggle.textContent = dark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Use ${dark() ? "light" : "dark"} colours`);
  };
  toggle.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  toggle.hidden = false;
  show();
}

/** Open a layer by a click on its row, or by the button that its name becomes. */
function addOpening(rows: HTMLTableRowElement[], dialog: LayerDialog): void {
  rows.forEach((row, at) => {
    const name = row.cells[0]!;
    const open = button("", { class: "open" }, () => dialog.open(at));
    open.append(...name.childNodes);
    name.append(open);
    row.classList.add("opens");
    row.addEventListener("click", (event) => {
      if ((event.target as Element).closest("button") || getSelection()?.toString()) return;
      dialog.open(at);
    });
  });
}

addTheme();
const table = document.querySelector<HTMLTableElement>("#layers table")!;
const rows = [...table.tBodies[0]!.rows];
const titles = [...table.tHead!.rows[0]!.cells].map((cell) => cell.textContent ?? "");
const dialog = new LayerDialog(report, new Map(Object.entries(view.pictures)), rows, titles);
addOpening(rows, dialog);
if (view.network) new NetworkSection(view.network, report, (name) => dialog.openByName(name));
const linked = /^#layer-(\d+)$/.exec(location.hash);
if (linked) dialog.open(Number(linked[1]));
