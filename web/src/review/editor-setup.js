// The CodeMirror editor with the few extensions it needs. It has no history of its own: see editor.js.

import { defaultKeymap, indentLess, indentMore } from "@codemirror/commands";
import { css } from "@codemirror/lang-css";
import { html } from "@codemirror/lang-html";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { markdown } from "@codemirror/lang-markdown";
import { python } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { classHighlighter } from "@lezer/highlight";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { StyleModule } from "style-mod";
import { dictionary } from "../dictionary.js";
import { HIDDEN_CHARACTER, formatCodePoint } from "../format.js";
import { stepOf } from "./editor-keys.js";
import { hunkField, hunkPointer } from "./hunks.js";

// Hidden and bidirectional characters are written out, except inside emoji.
const SIGNS = {
  addSpecialChars: HIDDEN_CHARACTER,
  render: (code, description) => {
    const sign = document.createElement("span");
    sign.className = "cm-specialChar";
    sign.title = description;
    sign.textContent = formatCodePoint(String.fromCodePoint(code));
    return sign;
  },
};

const MAX_LINE_LENGTH = 20_000; // characters of a line beyond which a file is not highlighted

const script = dictionary({ js: {}, mjs: {}, cjs: {}, jsx: { jsx: true }, ts: { typescript: true }, tsx: { jsx: true, typescript: true } });

function languageOf(path, text) {
  for (const line of text.iterLines()) if (line.length > MAX_LINE_LENGTH) return [];
  const kind = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  if (script[kind]) return javascript(script[kind]);
  const known = dictionary({ py: python, pyi: python, json, md: markdown, html, htm: html, css });
  return known[kind]?.() ?? [];
}

/**
 * The page's content security policy forbids the style element that CodeMirror inserts. In a shadow tree it uses a constructed
 * style sheet instead: that sheet is adopted by the document.
 */
function adoptStyles() {
  const tree = document.createElement("div").attachShadow({ mode: "open" });
  StyleModule.mount(tree, []);
  for (const name of Object.getOwnPropertySymbols(tree)) document[name] ??= tree[name];
}

/** Normalize pasted text: "\n" as line end, no null characters. */
const cleaned = (text) => text.replace(/\r\n?/g, "\n").replaceAll("\0", "").toWellFormed();

const indent = { key: "Mod-]", run: indentMore };
const outdent = { key: "Mod-[", run: indentLess };

const INPUTS = { historyUndo: "undo", historyRedo: "redo" }; // of a menu

/** Create an editor of `text` with the `marks` of hunks. `keys` take precedence; `onUpdate` gets each update, `onStep` "undo" and "redo". */
export function createEditor({ path, text, marks, keys, onUpdate, onStep }) {
  adoptStyles();
  const step = (kind) => Boolean(kind) && (onStep(kind), true);
  const extensions = [
    EditorState.lineSeparator.of("\n"), // other line separators are ordinary characters
    EditorState.tabSize.of(4),
    indentUnit.of("    "),
    EditorView.clipboardInputFilter.of(cleaned),
    EditorView.domEventHandlers({ keydown: (event) => step(stepOf(event)), beforeinput: ({ inputType }) => step(INPUTS[inputType]) }),
    EditorView.contentAttributes.of({ "aria-label": `Text of ${path}`, spellcheck: "false", tabindex: "0" }),
    EditorView.updateListener.of(onUpdate),
    keymap.of([...keys, indent, outdent, ...searchKeymap, ...defaultKeymap]),
    lineNumbers(), highlightSpecialChars(SIGNS), highlightActiveLine(), bracketMatching(), indentOnInput(),
    search({ top: true }), highlightSelectionMatches(), syntaxHighlighting(classHighlighter),
    languageOf(path, text), hunkField.init(() => marks), hunkPointer,
  ];
  return new EditorView({ state: EditorState.create({ doc: text, extensions }) });
}

/** The selected lines: {startLine, endLine, text}; null for none. */
export function selectedLines({ selection: { main }, doc }) {
  if (main.empty) return null;
  const [from, to] = [doc.lineAt(main.from), doc.lineAt(main.to)];
  return { startLine: from.number, endLine: to.number, text: doc.sliceString(from.from, to.to) };
}
