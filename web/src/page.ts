// The page of a report: the network, and layers that open. The table is enhanced by table.ts.
import { type Layer, type Report, type View, read } from "./data";
import { LayerDialog, type OpenLayer } from "./layer/dialog";
import { NetworkSection } from "./network/section";
import { thousands } from "./text";
import { addTheme } from "./theme";

const report = read<Report>("effsparse-report");
const view = read<View>("effsparse-view");
const pictures = new Map(Object.entries(view.pictures));

function describe(layer: Layer): OpenLayer {
  return { name: layer.name, facts: [layer.op, layer.shape.join(" x ")], picture: pictures.get(layer.name) };
}

/** Describe an embedding table, which does not count and has no row. */
function describeTable(layer: Layer): OpenLayer {
  const numbers: [string, string][] = [
    ["weights", thousands(layer.connections)],
    ["kept", thousands(layer.kept)],
    ["active", thousands(layer.active)],
    ["counted", "no"],
  ];
  return { ...describe(layer), numbers };
}

addTheme();
const dialog = new LayerDialog([...report.layers.map(describe), ...report.embeddings.map(describeTable)]);
if (view.network) new NetworkSection(view.network, report, (name) => dialog.openByName(name));
dialog.openLinked();
