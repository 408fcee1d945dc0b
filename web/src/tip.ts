// One tooltip for the whole page, shown beside what the mouse or the focus is on.
import { type Counts, KINDS } from "./data";
import { element } from "./dom";
import { thousands } from "./text";

const tip = document.getElementById("tip")!;

/** Show what `build` returns while the mouse is over `target`, or while it has the focus. */
export function addTip(target: Element, build: () => Node[]): void {
  const show = (x: number, y: number) => {
    tip.replaceChildren(...build());
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 14 + width > innerWidth ? x - width - 14 : x + 14;
    const top = y + 14 + height > innerHeight ? y - height - 14 : y + 14;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, top)}px`;
  };
  target.addEventListener("pointermove", (event) =>
    show((event as PointerEvent).clientX, (event as PointerEvent).clientY),
  );
  target.addEventListener("pointerleave", hideTip);
  target.addEventListener("focus", () => {
    if (!target.matches(":focus-visible")) return;
    const { right, bottom } = target.getBoundingClientRect();
    show(right - 14, bottom - 14);
  });
  target.addEventListener("blur", hideTip);
}

export function hideTip(): void {
  tip.hidden = true;
}

/** Return the content of a tooltip: a name, what it is, and its counts. */
export function describe(name: string, subtitle: string, counts: Counts | null, uncounted = false): Node[] {
  const lines: Node[] = [element("strong", {}, name), element("div", { class: "what" }, subtitle)];
  return counts
    ? [
        ...lines,
        listCounts(counts),
        ...(uncounted ? [element("div", { class: "what" }, "not counted in the totals")] : []),
      ]
    : lines;
}

function listCounts(counts: Counts): Node {
  const list = element("dl");
  const line = (label: string, number: number, kind = "") =>
    list.append(
      element("dt", {}, element("i", { class: `swatch ${kind}` }), label),
      element("dd", {}, thousands(number)),
    );
  line("weights", counts.connections);
  line("kept", counts.kept);
  for (const kind of KINDS) {
    const name = kind.replace("_", "-");
    if (counts[kind] || kind === "active") line(name, counts[kind], `k-${name}`);
  }
  if (counts.carriers) line("bias carriers", counts.carriers, "k-carrier");
  return list;
}

// A tooltip of the mouse goes when the mouse is elsewhere; one of the focus would stay behind.
addEventListener("scroll", () => !document.querySelector(".box:hover") && hideTip(), { passive: true, capture: true });
addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
