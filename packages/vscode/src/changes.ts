// The view of changes to decide, and VS Code's diff editor for each.

import { basename, join } from "node:path";
import type { FileProblem, FileToDecide, ReviewHunk, RpcClient } from "newel-client";
import * as vscode from "vscode";
import { applyPatches, changedLines, firstLine, undecided } from "./patch.ts";
import { clean, label } from "./text.ts";

/** A changed file in the view, or one of its hunks. */
export interface Node {
  folder: string;
  file: FileToDecide;
  hunk?: ReviewHunk;
}

const SCHEME = "newel-text";
const KEPT_TEXTS = 40;

export class Changes implements vscode.TreeDataProvider<Node>, vscode.TextDocumentContentProvider, vscode.Disposable {
  readonly #client: (folder: string) => Promise<RpcClient>;
  readonly #running: (folder: string) => Promise<RpcClient> | undefined;
  readonly #folders = new Map<string, string>();
  readonly #texts = new Map<string, string>();
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #registered: vscode.Disposable[];
  readonly #view: vscode.TreeView<Node>;
  #files: Node[] = [];
  #lastText = 0;
  readonly onDidChangeTreeData = this.#changed.event;

  constructor(client: (folder: string) => Promise<RpcClient>, running: (folder: string) => Promise<RpcClient> | undefined) {
    this.#client = client;
    this.#running = running;
    this.#view = vscode.window.createTreeView("newel.changes", { treeDataProvider: this });
    this.#registered = [this.#view, this.#changed, vscode.workspace.registerTextDocumentContentProvider(SCHEME, this)];
  }

  get count(): number {
    return this.#files.length;
  }

  dispose(): void {
    for (const each of this.#registered) each.dispose();
  }

  add(folder: string, name: string): void {
    this.#folders.set(folder, name);
  }

  /** Read the pending changes of all folders whose Newel runs. Starts none. */
  async refresh(): Promise<void> {
    const files: Node[] = [];
    for (const folder of this.#folders.keys()) {
      try {
        const client = await this.#running(folder);
        if (!client) continue;
        const { pending } = await client.changes(0);
        files.push(...undecided(pending).map((file) => ({ folder, file })));
      } catch {
        // not recorded, or the folder or its Newel has gone: there is nothing to decide
      }
    }
    this.#files = files;
    this.#view.badge = files.length > 0 ? { value: files.length, tooltip: "Files to decide" } : undefined;
    await vscode.commands.executeCommand("setContext", "newel.hasChanges", files.length > 0);
    this.#changed.fire();
  }

  hasMine(node?: Node): boolean {
    const hunks = node?.hunk ? [node.hunk] : (node ? [node] : this.#files).flatMap(({ file }) => file.hunks);
    return hunks.some((hunk) => hunk.mine);
  }

  /** Keep or reject a hunk, a file or everything; returns what was left undecided. */
  async decide(verdict: "keep" | "reject", node: Node | undefined, mine: "base" | "peel" | null): Promise<FileProblem[]> {
    const left: FileProblem[] = [];
    const folders = node ? [node.folder] : [...new Set(this.#files.map(({ folder }) => folder))];
    try {
      for (const folder of folders) {
        const names = node ? (node.hunk ? [node.hunk.hunkId] : node.file.hunks.map(({ hunkId }) => hunkId)) : [];
        const done = await (await this.#client(folder)).decide({ verdict, names, all: !node, mine });
        left.push(...done.left);
      }
    } finally {
      await this.refresh();
    }
    return left;
  }

  // -- the view --------------------------------------------------------------------------------------

  getChildren(node?: Node): Node[] {
    if (!node) return this.#files;
    if (node.hunk || node.file.hunks.length < 2) return [];
    return node.file.hunks.map((hunk) => ({ ...node, hunk }));
  }

  getTreeItem(node: Node): vscode.TreeItem {
    const { file, hunk, folder } = node;
    const shown = hunk ?? (file.hunks.length === 1 ? file.hunks[0] : undefined);
    const warning = shown?.conflict ? "conflict: the file has changed there since" : (shown?.warning ?? "");
    const item = new vscode.TreeItem(hunk ? label(changedLines(hunk.patch), 80) : label(file.filePath));
    item.id = `${folder}\0${file.filePath}\0${hunk?.hunkId ?? ""}`;
    item.contextValue = hunk ? "hunk" : "file";
    item.command = { command: "newel.openChange", title: "Open Change", arguments: [node] };
    if (hunk) item.description = label(warning ? `line ${firstLine(hunk.patch)}, ${warning}` : `line ${firstLine(hunk.patch)}`);
    else {
      item.resourceUri = vscode.Uri.file(join(folder, file.filePath));
      item.iconPath = vscode.ThemeIcon.File;
      const name = this.#folders.size > 1 ? this.#folders.get(folder) : "";
      item.description = label([name, file.change, file.about, warning].filter(Boolean).join(", "));
      if (file.hunks.length > 1) item.collapsibleState = vscode.TreeItemCollapsibleState.Expanded;
    }
    return item;
  }

  // -- diffs -----------------------------------------------------------------------------------------

  /** Show a file before and after a change that is to be decided. */
  async open({ folder, file, hunk }: Node): Promise<void> {
    const hunks = hunk ? [hunk] : file.hunks;
    const before = await read(join(folder, file.filePath));
    const after = applyPatches(before, hunks.map(({ patch }) => patch));
    await this.#diff(file.filePath, before, after, hunks.map(({ patch }) => patch).join("\n"), "now ↔ if kept");
  }

  /** Show a file before and after a change that was made. */
  async openDone(folder: string, path: string, patch: string): Promise<void> {
    const after = await read(join(folder, path));
    await this.#diff(path, applyPatches(after, [patch], true), after, patch, "before ↔ now");
  }

  async #diff(path: string, before: string | undefined, after: string | undefined, patch: string, sides: string): Promise<void> {
    // a file that changed since, or that has no lines: the change alone
    if (before === undefined || after === undefined) return await this.showText(`${basename(path)}.diff`, clean(patch));
    const title = `${label(basename(path))} (Newel: ${sides})`;
    await vscode.commands.executeCommand("vscode.diff", this.#keep(path, before), this.#keep(path, after), title);
  }

  /** Show a text that is not in a file. */
  async showText(name: string, text: string): Promise<void> {
    const document = await vscode.workspace.openTextDocument(this.#keep(name.replaceAll("/", " "), text));
    await vscode.window.showTextDocument(document, { preview: true, preserveFocus: true });
  }

  #keep(path: string, text: string): vscode.Uri {
    const key = String(++this.#lastText);
    this.#texts.set(key, text);
    for (const old of [...this.#texts.keys()].slice(0, -KEPT_TEXTS)) this.#texts.delete(old);
    return vscode.Uri.from({ scheme: SCHEME, path: `/${path}`, query: key });
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#texts.get(uri.query) ?? "";
  }
}

/** The text of a file; empty if there is none. */
async function read(path: string): Promise<string> {
  try {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await vscode.workspace.fs.readFile(vscode.Uri.file(path)));
  } catch (error) {
    if (error instanceof vscode.FileSystemError && error.code === "FileNotFound") return "";
    throw error;
  }
}
