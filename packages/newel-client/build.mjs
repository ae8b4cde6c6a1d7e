// Builds lib/ from src/.
//
//   node build.mjs            writes it
//   node build.mjs --check    compares it with a fresh build; status 1 if they differ

import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const LIB = join(HERE, "lib");

async function build(folder) {
  await rm(folder, { recursive: true, force: true });
  const compiler = join(HERE, "node_modules", "typescript", "bin", "tsc");
  const { status } = spawnSync(process.execPath, [compiler, "--outDir", folder], { cwd: HERE, stdio: "inherit" });
  if (status !== 0) process.exit(1);
}

async function filesOf(folder) {
  const names = (await readdir(folder)).sort();
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), "utf8")])));
}

if (process.argv.includes("--check")) {
  const fresh = await mkdtemp(join(tmpdir(), "newel-client-"));
  try {
    await build(fresh);
    const [wanted, there] = [await filesOf(fresh), await filesOf(LIB)];
    const other = [...new Set([...wanted.keys(), ...there.keys()])].filter((name) => wanted.get(name) !== there.get(name));
    if (other.length > 0) {
      console.error(`Not what the sources give: ${other.join(", ")}. Run \`npm run build\` and commit the result.`);
      process.exitCode = 1;
    }
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
} else await build(LIB);
