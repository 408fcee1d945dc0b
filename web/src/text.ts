// Names and numbers as text.

/** Make characters visible that would move or hide text: control, bidirectional and invisible ones, line breaks. */
export function visible(name: string): string {
  return name.replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, (char) => {
    const short = ({ "\n": "\\n", "\r": "\\r", "\t": "\\t" } as Record<string, string>)[char];
    if (short) return short;
    const code = char.codePointAt(0)!.toString(16);
    return code.length <= 2
      ? `\\x${code.padStart(2, "0")}`
      : code.length <= 4
        ? `\\u${code.padStart(4, "0")}`
        : `\\U${code.padStart(8, "0")}`;
  });
}

export function thousands(number: number): string {
  return number.toLocaleString("en-US");
}

/** Return a count in at most four characters: 950, 1.2k, 34k, 5.6M. */
export function short(number: number): string {
  for (const [unit, size] of [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const) {
    // Truncate, so that a count is never said to be more than it is.
    if (number >= size)
      return `${number < 10 * size ? Math.floor((10 * number) / size) / 10 : Math.floor(number / size)}${unit}`;
  }
  return String(number);
}

/** Shorten a long text in the middle: the start names the block, the end the weight. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text;
  const end = Math.floor((length - 1) / 2);
  return `${text.slice(0, length - 1 - end)}…${text.slice(text.length - end)}`;
}
