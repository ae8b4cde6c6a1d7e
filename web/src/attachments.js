// The files attached to a message: picked, dropped or pasted.

import { h, icon, iconButton, fill } from "./dom.js";
import { areRemoved, loadDraftFiles, saveDraftFiles } from "./draft-files.js";
import { revealPath, formatBytes } from "./format.js";

const MAX_BYTES = 2 * 1024 * 1024; // bytes of all files of a message: as base64 and as text they must fit into one frame of the socket
const MAX_FILES = 20;

export class Attachments {
  /** `loaded` resolves once the files of the tab's stored draft are among them. */
  constructor({ tab, refuse, changed }) {
    Object.assign(this, { tab, refuse, changed });
    this.files = [];
    this.el = h("div", { class: "files", hidden: true });
    this.input = h("input", {
      type: "file", multiple: true, hidden: true, onchange: () => {
        this.add(this.input.files);
        this.input.value = "";
      },
    });
    this.loaded = loadDraftFiles(tab).then((files) => files.length > 0 && this.restore(files));
    this.button = iconButton("clip", "Attach files", () => this.input.click());
  }

  async add(list) {
    for (const file of [...list]) { // a copy: the browser empties its list after the event
      const total = this.files.reduce((sum, each) => sum + each.size, 0) + file.size;
      if (total > MAX_BYTES || this.files.length >= MAX_FILES) {
        this.refuse(`${revealPath(file.name)} was not attached: a message takes ${MAX_FILES} files and ${formatBytes(MAX_BYTES)} in all.`);
        continue;
      }
      if (PICTURE.test(file.type) && !(await isPicture(file))) {
        this.refuse(`${revealPath(file.name)} was not attached: it cannot be read as an image.`);
        continue;
      }
      const attachment = await attachmentOf(file);
      if (attachment) this.files.push(attachment);
      else this.refuse(`${revealPath(file.name)} was not attached: only text and images are supported.`);
    }
    this.#show();
  }

  restore(files) {
    this.files = [...files, ...this.files];
    this.#show();
  }

  /** Drop the files that another window has sent or removed. */
  dropRemoved(removed) {
    if (areRemoved(removed, this.tab, this.files)) this.take();
  }

  take() {
    const files = this.files;
    this.files = [];
    this.#show();
    return files;
  }

  #show() {
    this.loaded.then(() => saveDraftFiles(this.tab, this.files)); // not before the stored ones are here
    this.el.hidden = this.files.length === 0;
    fill(this.el, ...this.files.map((file) =>
      h("span", { class: "chip" }, icon("clip"), `${revealPath(file.fileName)} · ${formatBytes(file.size)}`,
        iconButton("close", `Remove ${revealPath(file.fileName)}`, () => {
          this.files = this.files.filter((each) => each !== file);
          this.#show();
        }))));
    this.changed();
  }
}

const PICTURE = /^image\/(?:png|jpeg|gif|webp)$/;

/** Whether a file is the image that its type claims. A server refuses a broken one with each request of the conversation. */
async function isPicture(file) {
  try {
    (await createImageBitmap(file)).close();
    return true;
  } catch {
    return false;
  }
}

/** A file as the protocol represents it; null if no model can read it. */
async function attachmentOf(file) {
  const common = { fileName: file.name || "pasted", size: file.size, content: await base64(file) };
  if (PICTURE.test(file.type)) return { type: "image", mimeType: file.type, ...common };
  const text = await textOf(file);
  if (text === null) return null;
  const extractedText = `Content of the file ${common.fileName}:\n${text}`;
  return { type: "document", mimeType: file.type || "text/plain", extractedText, ...common };
}

async function textOf(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? null : text;
  } catch {
    return null; // not UTF-8
  }
}

const base64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
