// Bundles the extension with its client of Newel: dist/extension.cjs, which is all that VS Code loads.

import { build } from "esbuild";

await build({
  entryPoints: ["src/extension.js"],
  outfile: "dist/extension.cjs",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
});
