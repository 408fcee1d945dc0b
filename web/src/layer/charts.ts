// Small pictures of a layer: histograms of fan-in and fan-out, and the positions of a convolution that are alive.
import { type Histogram, type Positions } from "../data";
import { element, svg } from "../dom";
import { short, thousands } from "../text";
import { unpack } from "./cells";
import { paintShares } from "./paint";

const WIDE = 320;
const TALL = 120;
const BASE = 96;

/** Return a histogram of how many units have how many connections: kept as outlines, active as bars. */
export function drawHistogram(title: string, histogram: Histogram): HTMLElement {
  const bins = histogram.kept.map((kept, i) => ({
    kept,
    active: histogram.active[i] ?? 0,
    label: binLabel(histogram.edges, i),
  }));
  const most = Math.max(1, ...bins.flatMap(({ kept, active }) => [kept, active]));
  const step = WIDE / bins.length;
  const height = (n: number) => (n ? Math.max(1.5, ((BASE - 16) * n) / most) : 0);
  const summary = bins
    .filter(({ kept, active }) => kept || active)
    .map(({ kept, active, label }) => `${label}: ${kept} kept, ${active} active`);
  const picture = svg("svg", {
    class: "chart",
    viewBox: `0 0 ${WIDE} ${TALL}`,
    role: "img",
    "aria-label": `${title}. ${summary.join("; ")}`,
  });
  bins.forEach(({ kept, active, label }, i) => {
    const bar = (kind: string, n: number, x: number) =>
      svg("rect", { class: kind, x, y: BASE - height(n), width: 0.36 * step, height: height(n) });
    picture.append(
      svg(
        "g",
        {},
        svg(
          "title",
          {},
          `${label}: ${thousands(kept)} by kept connections, ${thousands(active)} by active connections`,
        ),
        svg("rect", { class: "area", x: i * step, y: 0, width: step, height: TALL }),
        bar("k-kept", kept, (i + 0.12) * step),
        bar("k-active", active, (i + 0.52) * step),
        svg("text", { class: "tick", x: (i + 0.5) * step, y: BASE + 14, "text-anchor": "middle" }, label),
        active
          ? svg(
              "text",
              { class: "value", x: (i + 0.7) * step, y: BASE - height(active) - 4, "text-anchor": "middle" },
              short(active),
            )
          : undefined,
      ),
    );
  });
  return element("figure", {}, element("figcaption", {}, title), picture);
}

function binLabel(edges: number[], i: number): string {
  const [first, next] = [edges[i] ?? 0, edges[i + 1]];
  if (next === undefined) return `${short(first)}+`;
  return next - first === 1 ? String(first) : first >= 100 ? `${short(first)}+` : `${first}–${next - 1}`;
}

/** Return a map of the positions of a convolution's output, the darker the more channels are alive there. */
export async function drawPositions(positions: Positions): Promise<HTMLElement> {
  const counts = await unpack(positions);
  const [height, width] = positions.grid;
  const [down, across] = positions.cell;
  const under = (cell: number) =>
    Math.min(down, positions.height - Math.floor(cell / width) * down) *
    Math.min(across, positions.width - (cell % width) * across);
  const canvas = element("canvas", { id: "layer-positions" });
  paintShares(canvas, width, height, (cell) => counts[cell]! / (positions.channels * under(cell)), "active");
  let alive = 0;
  for (const n of counts) alive += n;
  const all = positions.channels * positions.height * positions.width;
  const text = element(
    "output",
    { class: "hint" },
    `${thousands(alive)} of ${thousands(all)} pairs of channel and position are alive.`,
  );
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const i = Math.min(height - 1, Math.floor(((event.clientY - box.top) / box.height) * height));
    const j = Math.min(width - 1, Math.floor(((event.clientX - box.left) / box.width) * width));
    const cell = i * width + j;
    const where =
      down * across === 1 ? `Position ${i},${j}` : `Positions ${i * down},${j * across} and ${under(cell) - 1} more`;
    text.textContent = `${where}: ${thousands(counts[cell]!)} of ${thousands(positions.channels * under(cell))} alive.`;
  });
  const side = Math.min(240, Math.max(64, 12 * Math.max(height, width)));
  canvas.style.width = `${(side * width) / Math.max(height, width)}px`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", text.textContent ?? "");
  const title = `Positions alive: ${positions.height} x ${positions.width}, ${positions.channels} channels`;
  return element("figure", { class: "positions" }, element("figcaption", {}, title), canvas, text);
}
