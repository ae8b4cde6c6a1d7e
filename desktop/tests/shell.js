// Runs the shell with a stand-in for Electron, for tests/desktop/test_shell.py: what the shell does is written to standard output,
// and what the user does is read from standard input, a JSON array a line.
//
//   node shell.js USER_DATA CHECKOUT [FOLDER]

import { createInterface } from "node:readline";

import { startApp } from "../src/app.js";
import { makeElectron } from "./electron-standin.js";

const [userData = "", checkout = "", ...words] = process.argv.slice(2);
const record = (/** @type {string} */ event, details = {}) => process.stdout.write(`${JSON.stringify({ event, ...details })}\n`);
const { electron, act } = makeElectron({ userData, record, chosenFolder: process.env.CHOSEN_FOLDER });
createInterface({ input: process.stdin }).on("line", (line) => {
  const [name, ...details] = JSON.parse(line);
  act(name, ...details);
});
const { CHOSEN_FOLDER: _, ...env } = process.env;
await startApp(electron, { checkout: checkout || null, argv: ["electron", ".", ...words], env });
