// The page of two models: layers that open, with what became of their connections.
import { type Diff, type DiffLayer, type View, read } from "./data";
import { LayerDialog, type OpenLayer } from "./layer/dialog";
import { visible } from "./text";
import { addTheme } from "./theme";

const diff = read<Diff>("effsparse-report");
const pictures = new Map(Object.entries(read<View>("effsparse-view").pictures));
const shape = (layer: DiffLayer) => layer.shape.join(" x ");

function describePair({ before, after, gained }: Diff["layers"][number]): OpenLayer {
  const name = before.name === after.name ? before.name : `${before.name} -> ${after.name}`;
  const facts = [
    before.op,
    shape(before) === shape(after) ? shape(before) : `${shape(before)} before, ${shape(after)} after`,
  ];
  const missing = gained === null ? "The shapes differ, so connections were counted but not compared." : undefined;
  return { name, facts, picture: pictures.get(before.name), missing };
}

function describeSingle(layer: DiffLayer, model: string): OpenLayer {
  return { name: layer.name, facts: [layer.op, shape(layer)], missing: `This layer is only in ${visible(model)}.` };
}

addTheme();
const layers = [
  ...diff.layers.map(describePair),
  ...diff.only_before.map((layer) => describeSingle(layer, diff.before)),
  ...diff.only_after.map((layer) => describeSingle(layer, diff.after)),
];
new LayerDialog(layers, `Margins and histograms are those of ${visible(diff.after)}.`).openLinked();
