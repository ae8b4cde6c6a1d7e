// Dialogs about one hunk: a sentence by which an agent proposes it anew, and its earlier versions.

import { dialogHead, openDialog } from "../dialog.js";
import { fill, h, icon } from "../dom.js";
import { revealPath } from "../format.js";
import { formatPlace } from "./hunk-format.js";
import { parsePatch } from "./patch.js";
import { hunksView } from "./patch-view.js";

const FIRST_LINES = 12; // lines of the hunk that are shown at first

const drafts = new Map(); // path and hunk → a sentence that was not sent

const changesOf = (patch, label) => h("div", { class: "hunk-version" }, ...parsePatch(patch).map(({ hunks }) => hunksView(hunks, { heads: false, first: FIRST_LINES, label })));

/** Ask for a sentence about a hunk; `send(words)` resolves to an error message, or "". Resolves to whether it was sent. */
export async function askRevision({ path, hunk, send }) {
  const key = `${path}\n${hunk.hunk_id}`;
  const isSent = await openDialog({
    label: "Revise hunk", kind: "revise",
    build(close) {
      const area = h("textarea", {
        rows: "2", "aria-label": "What should be different?", placeholder: "What should be different?", dir: "auto", autofocus: true, value: drafts.get(key) ?? "",
        oninput: () => drafts.set(key, area.value),
        onkeydown: (event) => {
          if (event.key !== "Enter" || event.shiftKey) return;
          event.preventDefault();
          submit();
        },
      });
      const go = h("button", { type: "submit", class: "primary" }, "Propose");
      const problem = h("p", { class: "problem bad-text", role: "alert" });
      async function submit() {
        if (go.disabled || !area.value.trim()) return;
        go.disabled = true;
        fill(problem);
        const words = await send(area.value.trim());
        go.disabled = false;
        if (words) return fill(problem, icon("warn"), words);
        drafts.delete(key);
        close(true);
      }
      return [
        dialogHead("Revise hunk", close),
        h("p", { class: "dim mono" }, `${revealPath(path)} · ${formatPlace(hunk)}`),
        changesOf(hunk.patch, "The hunk"),
        h("form", { class: "revise-form", onsubmit: (event) => (event.preventDefault(), submit()) },
          area, h("p", { class: "dim" }, "The agent proposes a new version of these lines only. All other decisions stand."), problem,
          h("div", { class: "row" }, go, h("button", { type: "button", onclick: () => close() }, "Cancel"))),
      ];
    },
  });
  return isSent === true;
}

/** Show the earlier versions of a hunk, the latest first. `titleOf(run)` is what a run was asked for. */
export const showVersions = ({ path, hunk, titleOf }) =>
  openDialog({
    label: "Earlier versions", kind: "revise",
    build: (close) => [
      dialogHead("Earlier versions", close),
      h("p", { class: "dim mono" }, `${revealPath(path)} · ${formatPlace(hunk)}`),
      ...hunk.earlier.toReversed().map(({ run_id: run, patch }, at) => {
        const title = titleOf(run) || `Version ${hunk.earlier.length - at}`;
        return h("section", {}, h("h3", {}, title), changesOf(patch, title));
      }),
      h("p", { class: "dim" }, "Undo (Ctrl+Z in the file) restores the last one."),
    ],
  });
