// The page's modules and what each may import. If these fail, the state of the page depends on what shows it.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const SOURCE = join(dirname(fileURLToPath(import.meta.url)), "..", "src");

// From the top down: a module imports from its own layer and from those below it, and never in a cycle.
const LAYERS = {
  entry: ["main", "page"],
  frame: ["banners", "commands", "header", "page-view", "panel", "palette", "setup", "review/review-layout"],
  panels: [
    "agent", "chat", "first-page", "login", "mcp-panel", "permissions", "tabs", "toast", "trust", "usage", "review/binary-file-view", "review/editor", "review/job-list",
    "fleet/fleet-job-view", "fleet/fleet-list", "fleet/fleet-view", "review/job-view", "review/lazy-view", "review/pending-diff-view", "review/sidebar", "review/three-way-view", "review/timeline",
    "review/tree",
  ],
  parts: [
    "composer", "contract", "conversation", "message", "questions", "queue", "status-line", "stop-button", "subagent", "todo", "tool-call",
    "review/clarify-card", "review/draft-restore", "review/editor-bar", "review/editor-setup", "review/hunk-list", "review/hunks", "review/hunk-toolbar",
    "review/job-card", "review/pending-decisions-card", "review/prompt-context", "review/quick-open", "review/rollback", "rewind", "run-actions", "run-changes",
    "review/sidebar-chat", "review/sidebar-file", "review/sidebar-hunk",
  ],
  elements: [
    "agent-modes", "attachments", "completion", "dialog", "diff", "dom", "elapsed-timer", "host-status", "markdown", "picker", "streaming-markdown",
    "review/changes", "review/paged-list", "review/patch-view", "review/progress-bar", "review/revise-dialog", "review/run-origin", "review/virtual-list",
  ],
  state: [
    "actions", "fleet/fleet-api", "http-api", "notifications", "page-login", "page-state", "polling", "router", "socket", "store", "transcript", "review/api", "review/auto-refresh",
    "review/checkpoint-pages", "review/disk-watch", "review/editor-deciding", "review/editor-sync", "review/job-state", "review/pending-decisions",
    "review/pending-list-rows", "review/review-store", "review/revisions", "review/sidebar-session", "review/tree-rows", "review/unsent-edits",
  ],
  values: [
    "dictionary", "draft-files", "fleet/fleet-state", "format", "highlight", "hmac", "local-storage", "patience", "render-throttle", "server-clock", "server-sent-events", "theme", "theme-init", "word-diff", "review/change-labels",
    "review/editor-keys", "review/hunk-format", "review/patch", "review/path-order", "review/review-progress", "review/routes", "review/splices", "review/text-hash",
  ],
};

const IMPORT = /\b(?:from|import)\s*\(?\s*"(\.{1,2}\/[^"]+)\.js"/g;

const modules = readdirSync(SOURCE, { recursive: true })
  .filter((path) => path.endsWith(".js"))
  .map((path) => path.replaceAll("\\", "/").replace(/\.js$/, ""))
  .sort();

const imports = new Map(modules.map((name) => {
  const source = readFileSync(join(SOURCE, `${name}.js`), "utf8");
  return [name, [...source.matchAll(IMPORT)].map(([, path]) => posix.join(posix.dirname(name), path))];
}));

/** The first import cycle that is reachable from a module, as a path; null for none. */
function circleFrom(name, path = [], done = new Set()) {
  if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
  if (done.has(name)) return null;
  for (const imported of imports.get(name) ?? []) {
    const circle = circleFrom(imported, [...path, name], done);
    if (circle) return circle;
  }
  done.add(name);
  return null;
}

test("each module is in one layer", () => {
  assert.deepEqual(Object.values(LAYERS).flat().sort(), modules);
});

test("modules import from their own layer and from those below it", () => {
  const order = Object.keys(LAYERS);
  const layerOf = new Map(order.flatMap((layer, depth) => LAYERS[layer].map((name) => [name, depth])));
  const upward = [...imports].flatMap(([name, imported]) =>
    imported.filter((other) => layerOf.get(other) < layerOf.get(name))
      .map((other) => `${name} (${order[layerOf.get(name)]}) imports ${other} (${order[layerOf.get(other)]})`));
  assert.deepEqual(upward, []);
});

test("there is no import cycle", () => {
  const done = new Set();
  assert.deepEqual(modules.map((name) => circleFrom(name, [], done)?.join(" → ")).filter(Boolean), []);
});
