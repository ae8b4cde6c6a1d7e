// Newel in VS Code: commands, an output channel and a status bar item on a conversation for each folder.

import * as vscode from "vscode";
import { Conversation, explain } from "./conversation.js";
import { oneLine, plain, shortPreview } from "./text.js";

/** @import { Decision } from "./conversation.js" */
/** @import { ApprovalAsked, ChangesData } from "../../newel-client/lib/index.js" */

const SCHEME = "newel";

/** @type {Map<string, Conversation>} by folder */
const conversations = new Map();
/** @type {Map<string, string>} the texts of diffs that are shown, by their paths */
const documents = new Map();
/** @type {vscode.OutputChannel} */
let output;
/** @type {vscode.StatusBarItem} */
let status;
/** @type {Conversation | undefined} the one that was used last */
let current;

/** @param {vscode.ExtensionContext} context */
export function activate(context) {
  output = vscode.window.createOutputChannel("Newel", "markdown");
  status = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Left);
  status.command = "newel.showOutput";
  showState();
  status.show();
  const commands = { ask, askSelection, stop, review, undo, newSession, openSession, model, showOutput };
  context.subscriptions.push(
    output,
    status,
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      provideTextDocumentContent: (uri) => documents.get(uri.path) ?? "",
    }),
    vscode.workspace.onDidCloseTextDocument((document) => {
      if (document.uri.scheme === SCHEME) documents.delete(document.uri.path);
    }),
    ...Object.entries(commands).map(([name, run]) => vscode.commands.registerCommand(`newel.${name}`, () => reported(run))),
  );
}

export async function deactivate() {
  await Promise.all([...conversations.values()].map((conversation) => conversation.close()));
  conversations.clear();
}

/** Run a command, and show its error. @param {() => Promise<void> | void} run */
async function reported(run) {
  try {
    await run();
  } catch (error) {
    void vscode.window.showErrorMessage(`Newel: ${explain(error)}`);
  }
}

// -- commands -----------------------------------------------------------------------------------------

async function ask() {
  const conversation = await choose();
  const text = conversation && (await vscode.window.showInputBox({ title: "Newel", prompt: "What is to be done?", ignoreFocusOut: true }));
  if (conversation && text?.trim()) await run(conversation, text);
}

async function askSelection() {
  const editor = vscode.window.activeTextEditor;
  if (!editor || editor.selection.isEmpty) return;
  const conversation = await choose(editor.document.uri);
  const text = conversation && (await vscode.window.showInputBox({ title: "Newel", prompt: "What about these lines?", ignoreFocusOut: true }));
  if (!conversation || !text?.trim()) return;
  const { start, end } = editor.selection;
  const place = `${vscode.workspace.asRelativePath(editor.document.uri, false)}, lines ${start.line + 1} to ${end.line + 1}`;
  await run(conversation, `${text}\n\n${place}:\n\n${fenced(editor.document.getText(editor.selection))}`);
}

async function stop() {
  await Promise.all([...conversations.values()].map((conversation) => conversation.abort()));
}

async function newSession() {
  await (await choose())?.newSession();
}

async function openSession() {
  const conversation = await choose();
  if (!conversation) return;
  const { sessions } = await (await conversation.client()).sessions();
  const items = sessions.map((session) => ({
    label: oneLine(session.name || session.firstText || "(empty)", 80),
    description: `${new Date(session.modified * 1000).toLocaleString()} · ${session.messages} messages`,
    id: session.id,
  }));
  const chosen = await vscode.window.showQuickPick(items, { title: "Newel: sessions of this folder" });
  if (!chosen) return;
  await conversation.open(chosen.id);
  output.show(true);
}

async function model() {
  const conversation = await choose();
  if (!conversation) return;
  const client = await conversation.client();
  const { models, current: used } = await client.models();
  const chosen = await vscode.window.showQuickPick(
    models.map((name) => ({ label: name, description: name === used ? "in use" : "" })),
    { title: "Newel: models of the server" },
  );
  if (chosen) await client.model(chosen.label);
}

async function undo() {
  const conversation = await choose();
  if (!conversation) return;
  const client = await conversation.client();
  const { files, skipped } = await client.undo({ preview: true });
  await showDiff("undo", files.map((file) => file.patch));
  const rest = skipped.map((each) => `${oneLine(each.path)}: ${oneLine(each.reason)}`).join("\n");
  const answer = await vscode.window.showWarningMessage(
    `Undo the last run's changes in ${counted(files.length, "file")}?`,
    { modal: true, detail: rest && `Not undone:\n${rest}` },
    "Undo",
  );
  if (answer) await client.undo();
}

async function review() {
  const conversation = await choose();
  if (!conversation) return;
  const client = await conversation.client();
  const changes = await client.changes(1);
  if (changes.pending.length === 0) return showLastRun(changes);
  await showDiff("changes", changes.pending.flatMap((file) => file.hunks.map((hunk) => hunk.patch)));
  const chosen = await vscode.window.showQuickPick(
    changes.pending.flatMap((file) => [
      { label: oneLine(file.filePath), description: `${oneLine(file.change)}, all of it`, names: [file.filePath] },
      ...file.hunks.map((hunk) => ({
        label: `    ${oneLine(firstChange(hunk.patch), 60)}`,
        description: [hunk.state, hunk.conflict && "conflict", hunk.warning].filter(Boolean).map(String).map((text) => oneLine(text)).join(" · "),
        names: [hunk.hunkId],
      })),
    ]),
    { title: "Newel: changes that wait for your decision", canPickMany: true, ignoreFocusOut: true },
  );
  const names = chosen?.flatMap((item) => item.names) ?? [];
  if (names.length === 0) return;
  const verdict = await vscode.window.showQuickPick(
    [
      { label: "Keep", description: "write them to your files", verdict: /** @type {const} */ ("keep") },
      { label: "Reject", description: "drop them", verdict: /** @type {const} */ ("reject") },
    ],
    { title: `Newel: ${counted(names.length, "choice")}` },
  );
  if (!verdict) return;
  const done = await client.decide({ verdict: verdict.verdict, names });
  for (const left of done.left) void vscode.window.showWarningMessage(`Newel: ${oneLine(left.path)}: ${oneLine(left.reason)}`);
}

function showOutput() {
  output.show(true);
}

// -- the parts of commands ----------------------------------------------------------------------------

/** Send a prompt, with a notification that can end the run. @param {Conversation} conversation @param {string} text */
async function run(conversation, text) {
  output.show(true);
  if (conversation.isRunning) return conversation.ask(text);
  await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title: "Newel is working", cancellable: true },
    async (_, token) => {
      token.onCancellationRequested(() => reported(() => conversation.abort()));
      await conversation.ask(text);
    },
  );
}

/** The conversation of a folder: that of a file, the only one, or the one that the user picks. @param {vscode.Uri} [file] */
async function choose(file) {
  const folder =
    (file && vscode.workspace.getWorkspaceFolder(file)) ??
    ((vscode.workspace.workspaceFolders?.length ?? 0) > 1
      ? await vscode.window.showWorkspaceFolderPick({ placeHolder: "In which folder is Newel to work?" })
      : vscode.workspace.workspaceFolders?.[0]);
  if (!folder) {
    if (!vscode.workspace.workspaceFolders?.length) void vscode.window.showErrorMessage("Newel works in a folder. Open one first.");
    return undefined;
  }
  const path = folder.uri.fsPath;
  current = conversations.get(path) ?? new Conversation(settings(path), { print: (text) => output.append(text), approve, changed: showState, warn });
  conversations.set(path, current);
  return current;
}

/** Only the user's own settings count: all of them have the scope `machine`. @param {string} folder */
function settings(folder) {
  const values = vscode.workspace.getConfiguration("newel");
  const name = values.get("model", "");
  return {
    command: [values.get("path", "newel"), "rpc"],
    folder,
    args: ["--approve", values.get("approval", "ask"), ...(name ? ["--model", name] : []), ...values.get("arguments", /** @type {string[]} */ ([]))],
  };
}

/** @param {ApprovalAsked} request @returns {Promise<Decision | undefined>} */
async function approve(request) {
  /** @type {Record<string, Decision>} */
  const answers = { Allow: "once", "Always Allow Exactly This": "always" };
  const detail = shortPreview(request.preview);
  const answer = await vscode.window.showWarningMessage(`${oneLine(request.label)}?`, { modal: true, detail }, ...Object.keys(answers));
  return answer ? answers[answer] : undefined;
}

/** @param {string} message */
function warn(message) {
  void vscode.window.showWarningMessage(message.startsWith("Newel") ? message : `Newel: ${message}`);
}

function showState() {
  status.text = current?.isRunning ? "$(sync~spin) Newel" : "$(circle-outline) Newel";
  status.tooltip = current?.isRunning ? "Newel is working. Show its output" : "Show the output of Newel";
}

/** @param {ChangesData} changes */
async function showLastRun({ runs }) {
  const [last] = runs;
  if (!last) return void vscode.window.showInformationMessage("Newel: no change is recorded in this folder.");
  await showDiff("last-run", last.files.map((file) => file.patch));
}

let shown = 0;

/** Show unified diffs in a read-only document. @param {string} name @param {string[]} patches */
async function showDiff(name, patches) {
  shown += 1;
  const path = `/${shown}/${name}.diff`;
  documents.set(path, plain(patches.join("\n")));
  const document = await vscode.workspace.openTextDocument(vscode.Uri.from({ scheme: SCHEME, path }));
  await vscode.window.showTextDocument(document, { preview: true, preserveFocus: true });
}

/** The first line that a hunk changes. @param {string} patch */
function firstChange(patch) {
  return patch.split("\n").find((line) => /^[+-](?![+-]{2} )/.test(line)) ?? "";
}

/** @param {string} text */
function fenced(text) {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

/** @param {number} number @param {string} noun */
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
