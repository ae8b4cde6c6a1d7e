// The extension: VS Code's commands and views on one side, a folder's `newel rpc` on the other.

import { basename, join, relative, sep } from "node:path";
import { CommandFailed, ProcessEnded, type ApprovalAsked, type FileProblem, type RpcEvent } from "newel-client";
import * as vscode from "vscode";
import { Folder, NotInstalled, type Answer, type Launch } from "./folder.ts";
import { Changes, type Node } from "./changes.ts";
import { choices, describeCall, describeModel, icons, label, promptAbout, question, status, Transcript } from "./text.ts";

const MODES: [string, string][] = [
  ["ask", "Ask before each change and each command"],
  ["auto", "Change files and run commands without asking; all can be undone"],
  ["review", "Work on a copy of the folder; you decide about each change"],
  ["plan", "Look around without changing anything, and write a plan"],
  ["read-only", "Read only"],
];
const INSTALL = "Install Newel (from its checkout: `./run uv tool install .`), or set newel.path to where it is.";

/** A folder of the window with its Newel and its output channel. */
interface Opened {
  folder: Folder;
  channel: vscode.OutputChannel;
  transcript: Transcript;

}

class Extension {
  readonly #context: vscode.ExtensionContext;
  readonly #opened = new Map<string, Opened>();
  readonly #changes: Changes;
  readonly #bar = vscode.window.createStatusBarItem("newel.state", vscode.StatusBarAlignment.Left, 0);
  /** The running tool calls, described. */
  readonly #calls = new Map<string, string>();
  readonly #reported = new WeakSet<Error>();
  readonly #watchers = new Set<(event: RpcEvent) => void>();

  constructor(context: vscode.ExtensionContext) {
    this.#context = context;
    this.#changes = new Changes((folder) => this.#client(folder), (folder) => this.#opened.get(folder)?.folder.running);
    this.#bar.name = "Newel";
    this.#bar.command = "newel.showOutput";
    this.#bar.text = status(undefined, "idle");
    this.#bar.show();
    const commands: Record<string, (...words: never[]) => unknown> = {
      ask: () => this.#ask(), askSelection: () => this.#askSelection(), stop: () => this.#stop(), review: () => this.#review(),
      undo: () => this.#undo(), newSession: () => this.#newSession(), openSession: () => this.#openSession(),
      chooseModel: () => this.#chooseModel(), chooseApproval: () => this.#chooseApproval(), showOutput: () => this.#showOutput(),
      openChange: (node: Node) => this.#changes.open(node), refresh: () => this.#changes.refresh(),
      keep: (node: Node) => this.#decide("keep", node), reject: (node: Node) => this.#decide("reject", node),
      keepAll: () => this.#decide("keep"), rejectAll: () => this.#decide("reject"),
    };
    for (const [name, run] of Object.entries(commands))
      context.subscriptions.push(vscode.commands.registerCommand(`newel.${name}`, (...words: never[]) => this.#guard(() => run(...words))));
    context.subscriptions.push(this.#bar, this.#changes, vscode.workspace.onDidChangeWorkspaceFolders(({ removed }) => {
      for (const gone of removed) void this.#close(gone.uri.fsPath);
    }));
  }

  /** End the processes of all folders. */
  async close(): Promise<void> {
    await Promise.all([...this.#opened.keys()].map((path) => this.#close(path)));
  }

  async #close(path: string): Promise<void> {
    const opened = this.#opened.get(path);
    this.#opened.delete(path);
    await opened?.folder.close();
    opened?.channel.dispose();
  }

  /** Run a command, and show its error. */
  async #guard(run: () => unknown): Promise<void> {
    try {
      await run();
    } catch (error) {
      if (error instanceof Error && this.#reported.has(error)) return; // a crash is reported once
      if (error instanceof NotInstalled) {
        const settings = "Open Settings";
        const chosen = await vscode.window.showErrorMessage(`${label(error.message)} ${INSTALL}`, settings);
        if (chosen === settings) await vscode.commands.executeCommand("workbench.action.openSettings", "newel.path");
      } else if (!(error instanceof CommandFailed && error.code === "aborted")) {
        const text = error instanceof CommandFailed ? error.failure.message : error instanceof Error ? error.message : String(error);
        void vscode.window.showErrorMessage(`Newel: ${label(text)}`);
      }
    }
  }

  // -- folders ---------------------------------------------------------------------------------------

  /** The folder to work in: the only one, that of a file, or the one that the user picks. */
  async #pick(uri?: vscode.Uri): Promise<Opened | undefined> {
    const ofFile = uri && vscode.workspace.getWorkspaceFolder(uri);
    const folders = vscode.workspace.workspaceFolders ?? [];
    if (folders.length === 0) throw new Error("Open a folder first: Newel works in one.");
    const chosen = ofFile ?? (folders.length === 1 ? folders[0] : await vscode.window.showWorkspaceFolderPick({ placeHolder: "Newel works in one folder. Which?" }));
    if (!chosen) return undefined;
    if (chosen.uri.scheme !== "file") throw new Error(`${chosen.name} is not on a disk, where Newel could work on it.`);
    return this.#open(chosen);
  }

  #open(at: vscode.WorkspaceFolder): Opened {
    const path = at.uri.fsPath;
    const there = this.#opened.get(path);
    if (there) return there;
    const channel = vscode.window.createOutputChannel(`Newel: ${at.name}`);
    const transcript = new Transcript((text) => channel.append(text));
    const key = `session:${path}`;
    const folder: Folder = new Folder(path, () => launch(at.uri), {
      onEvent: (event) => this.#onEvent(opened, event),
      onQuestion: (asked, signal) => this.#onQuestion(asked, signal),
      onCrash: (error) => {
        this.#reported.add(error);
        const text = error instanceof ProcessEnded && error.exitCode === null ? "Newel was killed." : error.message;
        transcript.note(`! ${text}`);
        void vscode.window.showErrorMessage(`${label(text)} The next command starts it again, with the same session.`);
      },
      onState: (state, activity) => {
        this.#bar.text = status(state, activity);
        const session = state?.sessionName ?? state?.sessionId.slice(0, 8) ?? "";
        this.#bar.tooltip = state && `${at.name}, session ${label(session)}, approval mode: ${state.approve}`;
        this.#bar.backgroundColor = activity === "asking" ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
      },
      onSession: (id) => void this.#context.workspaceState.update(key, id),
    }, this.#context.workspaceState.get<string>(key));
    const opened: Opened = { folder, channel, transcript };
    this.#opened.set(path, opened);
    this.#changes.add(path, at.name);
    return opened;
  }

  #client(path: string) {
    const opened = this.#opened.get(path);
    if (!opened) throw new Error(`${basename(path)} is no longer open.`);
    return opened.folder.client();
  }

  // -- prompts ---------------------------------------------------------------------------------------

  async #ask(): Promise<void> {
    const opened = await this.#pick();
    if (!opened) return;
    const text = await vscode.window.showInputBox({ title: "Newel", prompt: "What should be done?", ignoreFocusOut: true });
    if (text?.trim()) await this.#run(opened, text);
  }

  async #askSelection(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (!editor || editor.selection.isEmpty) throw new Error("Select text in an editor first.");
    const { document, selection } = editor;
    const opened = await this.#pick(document.uri);
    if (!opened) return;
    const inside = relative(opened.folder.path, document.uri.fsPath).split(sep).join("/");
    const place = {
      path: document.isUntitled ? "an unsaved document" : inside.startsWith("../") ? document.uri.fsPath : inside,
      firstLine: selection.start.line + 1,
      // a selection of whole lines ends at the beginning of the next one
      lastLine: selection.end.line + (selection.end.character === 0 && selection.end.line > selection.start.line ? 0 : 1),
      text: document.getText(selection),
    };
    const asked = await vscode.window.showInputBox({ title: `Newel: ${place.path}:${place.firstLine}`, prompt: "What about the selection?", ignoreFocusOut: true });
    if (asked?.trim()) await this.#run(opened, promptAbout(asked, place), `${asked}\n(${place.path}, from line ${place.firstLine})`);
  }

  /** `shown` stands for the prompt in the output channel. */
  async #run(opened: Opened, text: string, shown = text): Promise<void> {
    if (!(await saveAll(opened.folder.path))) return;
    opened.channel.show(true);
    opened.transcript.prompt(shown);
    const title = `Newel: ${label(shown, 60)}`;
    await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title, cancellable: true }, async (progress, token) => {
      const controller = new AbortController();
      token.onCancellationRequested(() => controller.abort());
      const calls = (event: RpcEvent) => {
        if (event.type === "tool_execution_start") progress.report({ message: label(describeCall(event.toolName, event.args), 80) });
      };
      this.#watchers.add(calls);
      try {
        const { end } = await opened.folder.ask(text, controller.signal);
        if (end.reason !== "done" && end.reason !== "aborted" && end.reason !== "stopped")
          void vscode.window.showErrorMessage(`Newel ended: ${label(end.message || end.reason)}`);
      } finally {
        this.#watchers.delete(calls);
        await this.#changes.refresh();
      }
    });
  }

  #onEvent(opened: Opened, event: RpcEvent): void {
    opened.transcript.event(event);
    for (const watch of this.#watchers) watch(event);
    if (event.type === "tool_execution_start") this.#calls.set(event.toolCallId, describeCall(event.toolName, event.args));
    if (event.type === "tool_execution_end") {
      const call = this.#calls.get(event.toolCallId) ?? event.toolName;
      this.#calls.delete(event.toolCallId);
      if (event.isError && !opened.folder.isStopping) void this.#toolFailed(opened, `Tool failed: ${label(call, 80)}: ${label(event.result, 160)}`);
    }
    if (event.type === "agent_end") void opened.folder.refresh();
  }

  async #toolFailed(opened: Opened, text: string): Promise<void> {
    const show = "Show Output";
    if ((await vscode.window.showWarningMessage(text, show)) === show) opened.channel.show();
  }

  async #onQuestion(asked: ApprovalAsked, signal: AbortSignal): Promise<Answer> {
    const { title, preview, isLong } = question(asked);
    const answers = choices(asked);
    if (isLong) await this.#changes.showText(`${title}.diff`, preview);
    const picker = vscode.window.createQuickPick<{ label: string; decision?: Answer["decision"] }>();
    picker.title = title;
    picker.placeholder = isLong ? "What it would do is shown in the editor. Escape declines." : "Escape declines.";
    picker.items = [...(isLong ? [] : preview.split("\n").map((line) => ({ label: icons(line) }))), ...answers];
    // it may appear while the user types: Enter must not allow anything
    picker.activeItems = answers.slice(-1);
    picker.ignoreFocusOut = true;
    return await new Promise<Answer>((resolve) => {
      picker.onDidAccept(() => {
        const [item] = picker.selectedItems;
        if (!item?.decision) return; // a line of the preview
        resolve({ decision: item.decision });
        picker.hide();
      });
      picker.onDidHide(() => {
        resolve({ decision: "no", word: "The user closed the question." });
        picker.dispose();
      });
      signal.addEventListener("abort", () => picker.hide());
      picker.show();
    });
  }

  async #stop(): Promise<void> {
    const stopped = await Promise.all([...this.#opened.values()].map(({ folder }) => folder.stop()));
    if (!stopped.includes(true)) vscode.window.setStatusBarMessage("Newel: nothing is running.", 3_000);
  }

  // -- changes ---------------------------------------------------------------------------------------

  async #review(): Promise<void> {
    const opened = await this.#pick();
    if (!opened) return;
    await opened.folder.client();
    await this.#changes.refresh();
    if (this.#changes.count > 0) return void (await vscode.commands.executeCommand("newel.changes.focus"));
    const { runs } = await (await opened.folder.client()).changes();
    const items = runs.flatMap((run) => run.files.map((file) => ({
      label: label(file.filePath), description: label(file.state), detail: label(run.title, 80), file,
    })));
    if (items.length === 0) return void vscode.window.showInformationMessage("Newel has changed nothing here.");
    const chosen = await vscode.window.showQuickPick(items, { title: "No changes to decide. The latest changes", matchOnDetail: true });
    if (chosen) await this.#changes.openDone(opened.folder.path, chosen.file.filePath, chosen.file.patch);
  }

  async #decide(verdict: "keep" | "reject", node?: Node): Promise<void> {
    if (!node) {
      const verb = verdict === "keep" ? "Keep All" : "Reject All";
      const text = `${verb === "Keep All" ? "Keep" : "Reject"} the changes of ${this.#changes.count} files?`;
      if ((await vscode.window.showWarningMessage(text, { modal: true }, verb)) !== verb) return;
    }
    let mine: "base" | "peel" | null = null;
    if (verdict === "reject" && this.#changes.hasMine(node)) {
      const chosen = await vscode.window.showQuickPick([
        { label: "Drop only my lines", mine: "peel" as const },
        { label: "Drop the whole change", mine: "base" as const },
      ], { title: "You have edited this change" });
      if (!chosen) return;
      mine = chosen.mine;
    }
    const left = await this.#changes.decide(verdict, node, mine);
    tellProblems(left, verdict === "keep" ? "Not kept" : "Not rejected");
  }

  async #undo(): Promise<void> {
    const opened = await this.#pick();
    if (!opened) return;
    const client = await opened.folder.client();
    const plan = await client.undo({ preview: true });
    if (plan.files.length === 0) return tellProblems(plan.skipped, "Nothing can be undone");
    const verb = plan.redo ? "Redo" : "Undo";
    const names = plan.files.slice(0, 20).map((file) => label(file.path));
    if (plan.files.length > names.length) names.push(`and ${plan.files.length - names.length} more`);
    const question = plan.redo ? "Redo the run that was undone?" : "Undo the changes of the last run?";
    if ((await vscode.window.showWarningMessage(question, { modal: true, detail: names.join("\n") }, verb)) !== verb) return;
    const { skipped, files } = await client.undo({ checkpoint: plan.checkpointId });
    opened.transcript.note(`${plan.redo ? "Redone" : "Undone"}: ${files.map((file) => file.path).join(", ")}`);
    tellProblems(skipped, "Not undone");
    await this.#changes.refresh();
  }

  // -- sessions and choices --------------------------------------------------------------------------

  async #newSession(): Promise<void> {
    const opened = await this.#pick();
    if (!opened) return;
    await opened.folder.newSession();
    opened.transcript.note("\n— A new session —");
  }

  async #openSession(): Promise<void> {
    const opened = await this.#pick();
    if (!opened) return;
    const client = await opened.folder.client();
    const { sessions } = await client.sessions({ limit: 100 });
    const items = sessions.map((session) => ({
      label: label(session.name ?? session.firstText, 80) || session.id.slice(0, 8),
      description: `${new Date(session.modified * 1000).toLocaleString()}, ${session.messages} messages`,
      id: session.id,
    }));
    if (items.length === 0) return void vscode.window.showInformationMessage("Newel has no sessions in this folder.");
    const chosen = await vscode.window.showQuickPick(items, { title: "Sessions of this folder", matchOnDescription: true });
    if (!chosen) return;
    const { damage } = await opened.folder.openSession(chosen.id);
    opened.transcript.note(`\n— Session: ${chosen.label} —`);
    for (const line of damage) opened.transcript.note(`! ${line}`);
    const { messages } = await client.messages(20);
    for (const message of messages) {
      if (message.role === "user") opened.transcript.prompt(textOf(message.content));
      if (message.role === "assistant") opened.transcript.note(textOf(message.content));
    }
    opened.channel.show(true);
  }

  async #chooseModel(): Promise<void> {
    const opened = await this.#pick();
    if (!opened) return;
    const { models, current } = await (await opened.folder.client()).models();
    const items = models.map((model) => ({
      label: label(model.name),
      description: [describeModel(model), model.name === current ? "in use" : ""].filter(Boolean).join(" · "),
      name: model.name,
    }));
    const chosen = await vscode.window.showQuickPick(items, { title: "Model, from the next request on" });
    if (chosen) await opened.folder.chooseModel(chosen.name);
  }

  async #chooseApproval(): Promise<void> {
    const opened = await this.#pick();
    if (!opened) return;
    const current = opened.folder.state?.approve;
    const items = MODES.map(([name, detail]) => ({ label: name, detail, description: name === current ? "in use" : "" }));
    const chosen = await vscode.window.showQuickPick(items, { title: "What may be done without asking, until the window is closed" });
    if (chosen) await opened.folder.chooseApproval(chosen.label);
  }

  async #showOutput(): Promise<void> {
    (await this.#pick())?.channel.show();
  }
}

/** The settings of a folder. Those that choose what runs are of the machine: see package.json. */
function launch(uri: vscode.Uri): Launch {
  const settings = vscode.workspace.getConfiguration("newel", uri);
  return {
    path: settings.get("path", "newel"), arguments: settings.get<string[]>("arguments", []),
    model: settings.get("model", ""), approval: settings.get("approval", "ask"),
  };
}

/** Newel reads files, not editors: offer to save those of the folder. False if the user thinks again. */
async function saveAll(path: string): Promise<boolean> {
  const dirty = vscode.workspace.textDocuments.filter((document) => document.isDirty && document.uri.fsPath.startsWith(join(path, sep)));
  if (dirty.length === 0) return true;
  const names = dirty.map((document) => label(relative(path, document.uri.fsPath))).join("\n");
  const [save, go] = ["Save and Ask", "Ask Without Saving"];
  const chosen = await vscode.window.showWarningMessage("Newel reads files as they are saved. These are not:", { modal: true, detail: names }, save, go);
  if (chosen === save) return (await Promise.all(dirty.map((document) => document.save()))).every(Boolean);
  return chosen === go;
}

function textOf(content: string | readonly { type: string; text?: string }[]): string {
  return typeof content === "string" ? content : content.map((part) => (part.type === "text" ? part.text : "")).join("");
}

function tellProblems(problems: readonly FileProblem[], what: string): void {
  if (problems.length === 0) return;
  const list = problems.slice(0, 5).map(({ path, reason }) => `${label(path, 80)}: ${label(reason, 120)}`).join("; ");
  void vscode.window.showWarningMessage(`${what}: ${list}`);
}

let extension: Extension | undefined;

export function activate(context: vscode.ExtensionContext): void {
  extension = new Extension(context);
}

export async function deactivate(): Promise<void> {
  await extension?.close();
}
