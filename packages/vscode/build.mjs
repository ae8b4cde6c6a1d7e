// Bundles the extension with its client of `newel rpc` into dist/extension.cjs, and copies the licence.

import { copyFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
await build({
  absWorkingDir: HERE,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.cjs",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  charset: "utf8",
});
await copyFile(join(HERE, "..", "..", "LICENSE"), join(HERE, "LICENSE"));
