// The floor of the page's editor: the same CodeMirror with the same text, without hunks and with nothing behind it.

import { createEditor } from "../web/src/review/editor-setup.js";
import { HunkMarks } from "../web/src/review/hunks.js";
import { fileOf } from "../web/src/review/splices.js";

window.openBare = async (address) => {
  const content = await (await fetch(address)).text();
  const { text } = fileOf(content);
  const { dom } = createEditor({ path: "long.py", text, marks: new HunkMarks({}).begin(text, []), keys: [], onUpdate() {}, onStep() {} });
  document.querySelector(".file-editor").replaceChildren(dom);
};
