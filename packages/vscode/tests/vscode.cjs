// A stand-in for the parts of VS Code's API that the extension calls: it remembers what is shown and gives prepared answers.

const listeners = [];
const shown = { output: "", documents: [], messages: [], picks: [], errors: [] };
const answers = { input: [], message: [], pick: [] };
const settings = {};
const commands = new Map();
let provider;

const take = (list, ...of) => {
  const next = list.shift();
  return Promise.resolve(typeof next === "function" ? next(...of) : next);
};

module.exports = {
  test: { shown, answers, settings, run: (name) => commands.get(name)(), documentAt: (uri) => provider.provideTextDocumentContent(uri) },
  StatusBarAlignment: { Left: 1 },
  ProgressLocation: { Notification: 15 },
  Uri: { from: (parts) => parts },
  commands: { registerCommand: (name, run) => (commands.set(name, run), { dispose() {} }) },
  window: {
    activeTextEditor: undefined,
    createOutputChannel: () => ({ append: (text) => (shown.output += text), show() {}, dispose() {} }),
    createStatusBarItem: () => ({ show() {}, dispose() {} }),
    showInputBox: () => take(answers.input),
    showQuickPick: (items) => (shown.picks.push(items), take(answers.pick, items)),
    showErrorMessage: (text) => (shown.errors.push(text), Promise.resolve()),
    showInformationMessage: (text) => (shown.messages.push(text), Promise.resolve()),
    showWarningMessage: (text, options) => {
      shown.messages.push(`${text}\n${options?.detail ?? ""}`);
      return options?.modal ? take(answers.message, text, options) : Promise.resolve();
    },
    showTextDocument: () => Promise.resolve(),
    showWorkspaceFolderPick: () => take(answers.pick),
    withProgress: (_, work) => work({}, { onCancellationRequested: (listener) => listeners.push(listener) }),
    cancel: () => listeners.splice(0).forEach((listener) => listener()),
  },
  workspace: {
    workspaceFolders: [{ uri: { fsPath: process.env.NEWEL_PROJECT } }],
    getWorkspaceFolder: () => module.exports.workspace.workspaceFolders[0],
    asRelativePath: (uri) => uri.path,
    getConfiguration: () => ({ get: (name, standard) => settings[name] ?? standard }),
    registerTextDocumentContentProvider: (_, given) => ((provider = given), { dispose() {} }),
    onDidCloseTextDocument: () => ({ dispose() {} }),
    openTextDocument: (uri) => (shown.documents.push(provider.provideTextDocumentContent(uri)), Promise.resolve(uri)),
  },
};
