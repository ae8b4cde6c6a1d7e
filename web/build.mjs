// Builds the page into ../src/newel/web/static, the same bytes each time.
//
//   node build.mjs            writes the files
//   node build.mjs --check    compares them with a fresh build; status 1 if they differ

import { build } from "esbuild";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const SOURCE = join(HERE, "src");
const STATIC = join(HERE, "..", "src", "newel", "web", "static");
const COPIED = ["index.html", "favicon.svg"];
const LICENCE = /^(?:licen[cs]e|copying)(?:[.-]|$)/i;

async function make(folder) {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const common = { absWorkingDir: HERE, bundle: true, minify: true, charset: "utf8", legalComments: "none", target: ["es2023"] };
  const app = await build({
    ...common, format: "esm", entryPoints: { app: join(SOURCE, "main.js") }, outdir: folder, metafile: true,
    splitting: true, chunkNames: "[name]-[hash]", // the editor is loaded with the first file
  });
  await build({ ...common, format: "iife", entryPoints: [join(SOURCE, "theme-init.js")], outdir: folder });
  await build({ ...common, entryPoints: { app: join(SOURCE, "styles", "app.css") }, outdir: folder, target: ["chrome123"] });
  for (const name of COPIED) await writeFile(join(folder, name), await readFile(join(SOURCE, name)));
  await writeFile(join(folder, "LICENSES.txt"), await licences(Object.keys(app.metafile.inputs)));
}

/** The licences of all packages that are in the bundle. */
async function licences(inputs) {
  const names = new Set(inputs.map((input) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1]).filter(Boolean));
  const texts = [];
  for (const name of [...names].sort()) {
    const folder = join(HERE, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const files = (await readdir(folder)).filter((file) => LICENCE.test(file)).sort();
    if (files.length === 0) throw new Error(`${name}: no licence file`);
    const words = await Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
    texts.push(`${name} ${version} (${license})\n\n${words.map((text) => text.trim()).join("\n\n")}\n`);
  }
  return `The page contains these packages.\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

async function filesOf(folder) {
  const names = (await readdir(folder)).sort();
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name))])));
}

async function check() {
  const fresh = await mkdtemp(join(tmpdir(), "newel-page-"));
  try {
    await make(fresh);
    const [wanted, there] = [await filesOf(fresh), await filesOf(STATIC)];
    const all = new Set([...wanted.keys(), ...there.keys()]);
    const other = [...all].filter((name) => !wanted.get(name)?.equals(there.get(name) ?? Buffer.alloc(0)));
    if (other.length === 0) return console.log(`${basename(STATIC)}: ${all.size} files are what the sources give`);
    console.error(`Not what the sources give: ${other.join(", ")}. Run \`npm run build\` in web/ and commit the result.`);
    process.exitCode = 1;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

if (process.argv.includes("--check")) await check();
else {
  await make(STATIC);
  for (const [name, bytes] of await filesOf(STATIC)) console.log(`${String(bytes.length).padStart(8)}  ${name}`);
}
