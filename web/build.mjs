// Builds the assets of effsparse_cli/report/html. Each begins with a hash of what it was built from, which a test compares.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const assets = join(web, "../effsparse_cli/report/html/assets");
const entries = [
  "src/table.ts",
  "src/page.ts",
  "src/diff.ts",
  "src/check.ts",
  "styles/table.css",
  "styles/page.css",
  "styles/pages.css",
];

const sources = ["src", "styles"].flatMap((folder) =>
  readdirSync(join(web, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(web.length + 1)
        .replaceAll("\\", "/"),
    ),
);
const hash = createHash("sha256");
for (const name of [...sources, "build.mjs", "package-lock.json"].sort()) {
  hash
    .update(`${name}\0`)
    .update(readFileSync(join(web, name), "utf8").replaceAll("\r\n", "\n"))
    .update("\0");
}
const digest = hash.digest("hex");

const licence = readFileSync(join(web, "node_modules/@dagrejs/dagre/LICENSE"), "utf8").trim();
const built = await build({
  absWorkingDir: web,
  entryPoints: entries,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "chrome123", "firefox121", "safari17.5"],
  charset: "ascii",
  legalComments: "none",
  outdir: assets,
  entryNames: "[name]",
  write: false,
});
for (const file of built.outputFiles) {
  // Control characters are in string literals only, where HTML would change some of them.
  const text = file.text.replace(
    /[\x00-\x09\x0b-\x1f\x7f]/g,
    (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  const dagre = file.path.endsWith("page.js") ? `/* Contains dagre and graphlib:\n${licence}\n*/\n` : "";
  writeFileSync(file.path, `/* built from ${digest} */\n${dagre}${text}`);
  console.log(file.path.slice(assets.length + 1), text.length);
}
