// The command that starts the workbench: from the checkout that this shell is part of, or else the installed one.

import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { delimiter, join } from "node:path";

/**
 * @typedef {Record<string, string | undefined>} Environment
 * @typedef {object} Command
 * @property {string[]} argv
 * @property {string} cwd
 * @property {Environment} env
 * @property {number} timeout  ms until it must have printed its address
 */

const INSTALLED_TIMEOUT = 30_000;
const CHECKOUT_TIMEOUT = 300_000; // uv fetches the dependencies at the first start

/** No command was found; `isCheckout` tells whether only uv is missing. */
export class NoCommandError extends Error {
  /** @param {boolean} isCheckout */
  constructor(isCheckout) {
    super(isCheckout ? "This checkout needs uv to start Newel, and uv is not installed." : "Newel is not installed.");
    this.isCheckout = isCheckout;
  }
}

/**
 * Find the command that serves `folder` on `port`. Throws NoCommandError.
 * @param {{ checkout: string | null, folder: string, port: number, env: Environment }} given
 * @returns {Command}
 */
export function findCommand({ checkout, folder, port, env }) {
  const folders = searchPath(env);
  const environment = withPath(env, folders);
  const options = ["--port", String(port), "--exit-with-stdin", "--join", "--cwd", folder];
  const isCheckout = checkout !== null && isNewelCheckout(checkout);
  if (isCheckout) {
    const uv = findProgram("uv", [...folders, join(checkout, ".tools", "bin")]);
    const argv = [uv ?? "", "run", "--no-dev", "--project", checkout, "lsimons-agent-web", ...options];
    if (uv) return { argv, cwd: checkout, env: { ...environment, VIRTUAL_ENV: undefined }, timeout: CHECKOUT_TIMEOUT };
  }
  const newel = findProgram("newel", folders);
  if (newel) return { argv: [newel, "web", ...options], cwd: folder, env: environment, timeout: INSTALLED_TIMEOUT };
  const web = findProgram("lsimons-agent-web", folders);
  if (web) return { argv: [web, ...options], cwd: folder, env: environment, timeout: INSTALLED_TIMEOUT };
  throw new NoCommandError(isCheckout);
}

/**
 * The folders of PATH, and those where uv and pipx put programs: a desktop often starts programs with a shorter PATH than a shell.
 * @param {Environment} env
 */
function searchPath(env) {
  const home = env.HOME ?? "";
  const more = home ? [join(home, ".local", "bin"), join(home, ".cargo", "bin")] : [];
  const all = [...(env.PATH ?? "").split(delimiter), ...more, "/opt/homebrew/bin", "/usr/local/bin"];
  return [...new Set(all.filter((folder) => folder.startsWith("/")))];
}

/** @param {Environment} env @param {string[]} folders @returns {Environment} */
const withPath = (env, folders) => ({ ...env, PATH: folders.join(delimiter) });

/** @param {string} name @param {string[]} folders */
const findProgram = (name, folders) => folders.map((folder) => join(folder, name)).find(isExecutable);

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** @param {string} folder */
function isNewelCheckout(folder) {
  try {
    return /^name = "newel"$/m.test(readFileSync(join(folder, "pyproject.toml"), "utf8"));
  } catch {
    return false;
  }
}
