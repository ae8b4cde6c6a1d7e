// The page while the server does not run: what happened, its log, and what to do. It has no scripts; its buttons are links that
// the shell catches (navigation.js).

import { createHash } from "node:crypto";

import { plain } from "./log-tail.js";
import { ACTIONS } from "./navigation.js";

const STYLE = `
:root { color-scheme: light dark; }
body { margin: 0; padding: 48px 24px; background: light-dark(#fbfbf9, #16181b); color: light-dark(#1d1f21, #e6e6e3);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif; }
main { max-width: 720px; margin: 0 auto; }
h1 { margin: 0 0 24px; color: light-dark(#0b6e6e, #4fc3c3); font-size: 15px; }
h2 { margin: 0 0 8px; font-size: 20px; font-weight: 600; overflow-wrap: anywhere; }
p { margin: 0 0 12px; overflow-wrap: anywhere; }
code, pre { font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace; }
pre { max-height: 40vh; margin: 0 0 16px; padding: 12px; overflow: auto; border: 1px solid light-dark(#e3e3dc, #2b2f35);
  border-radius: 6px; background: light-dark(#f2f2ee, #101214); white-space: pre-wrap; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: 8px; margin: 24px 0; }
nav a { padding: 4px 12px; border: 1px solid light-dark(#8a8a82, #6f7680); border-radius: 6px; color: inherit; text-decoration: none; }
nav a:first-child { border-color: transparent; background: light-dark(#0b6e6e, #4fc3c3); color: light-dark(#ffffff, #0b1414); }
.dim { color: light-dark(#5c6066, #9aa0a8); }
`;
const POLICY = `default-src 'none'; style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'; base-uri 'none'; form-action 'none'`;

/** @type {Record<string, string>} */
const LABELS = { retry: "Retry", "open-folder": "Open Folder…", quit: "Quit" };

/**
 * @typedef {{ title: string, folder: string, lines?: string[], commands?: string[], log?: string, actions?: string[] }} Help
 */

/** The address of a help page. @param {Help} help */
export const helpUrl = (help) => `data:text/html;charset=utf-8;base64,${Buffer.from(render(help)).toString("base64")}`;

/** @param {string} folder @returns {Help} */
export const starting = (folder) => ({ title: "Starting Newel…", folder });

/** @param {string} folder @param {string} log @returns {Help} */
export const startingSlowly = (folder, log) => ({
  title: "Starting Newel…", folder, log,
  lines: ["This takes longer than usual. The first start in a checkout downloads what Newel needs, about 20 MB."],
  actions: ["open-folder", "quit"],
});

/** @param {string} folder @param {boolean} isCheckout whether only uv is missing @returns {Help} */
export const notInstalled = (folder, isCheckout) => ({
  title: isCheckout ? "This checkout needs uv" : "Newel is not installed", folder,
  lines: isCheckout
    ? ["uv starts Newel from its checkout, with the Python and the packages that it needs. Install it in one of these ways, then retry:"]
    : ["This window shows the workbench of Newel, a program for Python 3.11 or newer. Install it in one of these ways, then retry:"],
  commands: isCheckout
    ? ["pipx install uv", "./run uv --version     # in the checkout: installs uv into .tools/"]
    : ["uv tool install .      # in a checkout of Newel", "pipx install .         # the same with pipx"],
  actions: ["retry", "quit"],
});

/** @param {string} folder @param {string} reason @param {string} log @returns {Help} */
export const notStarted = (folder, reason, log) => ({
  title: "Newel did not start", folder, log, lines: [reason], actions: ["retry", "open-folder", "quit"],
});

/** @param {string} folder @param {string} reason @param {string} log @returns {Help} */
export const ended = (folder, reason, log) => ({
  title: "Newel has ended", folder, log,
  lines: [reason, "Nothing is lost: conversations, queued messages and running agents continue after a retry."],
  actions: ["retry", "open-folder", "quit"],
});

/** @param {Help} help */
function render({ title, folder, lines = [], commands = [], log = "", actions = [] }) {
  return [
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">",
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`,
    `<title>${escape(title)}</title><style>${STYLE}</style></head><body><main>`,
    `<h1>newel <span class="dim">${escape(folder)}</span></h1><h2>${escape(title)}</h2>`,
    ...lines.map((line) => `<p>${escape(line)}</p>`),
    commands.length > 0 ? `<pre>${commands.map(escape).join("\n")}</pre>` : "",
    log ? `<p class="dim">The last lines that it printed:</p><pre tabindex="0" aria-label="Log">${escape(log)}</pre>` : "",
    actions.length > 0 ? `<nav>${actions.map((name) => `<a href="${ACTIONS}${name}">${escape(LABELS[name] ?? name)}</a>`).join("")}</nav>` : "",
    "</main></body></html>",
  ].join("");
}

/** @param {string} text */
const escape = (text) => plain(text).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
