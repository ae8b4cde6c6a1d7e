// DOM helpers. A string given as a child becomes text, never HTML.

/** h("button", {class: "quiet", onclick}, "Stop"): an element with attributes, listeners and children. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, ...children);
  return element;
}

function append(element, ...children) {
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

/** A click handler that ignores the second click of a double click: it was meant for the button that was there before. */
export const onceClicked = (run) => (event) => event.detail > 1 || run(event);

const CLICK_SLACK = 4; // px that a pointer may move between press and release

/**
 * Click a button that moved away while the pointer was pressed on it, as text grows or messages arrive: the browser sends no
 * click then. As usual, moving the pointer away cancels the click.
 */
export function keepClicks() {
  addEventListener("pointerdown", (down) => {
    const button = down.button === 0 ? down.target.closest?.("button") : null;
    if (!button) return;
    const release = (up) => {
      const distance = Math.hypot(up.clientX - down.clientX, up.clientY - down.clientY);
      if (up.pointerId !== down.pointerId || distance > CLICK_SLACK || button.contains(up.target)) return;
      if (button.isConnected) button.click();
    };
    addEventListener("pointerup", release, { once: true, capture: true });
  }, { capture: true });
}

/** Keep keys from the page that an input method needs to choose, accept or cancel the text that it composes. */
export function keepCompositions() {
  addEventListener("keydown", (event) => event.isComposing && event.stopImmediatePropagation(), { capture: true });
}

/** Show or hide a button; if it had the focus, `next` gets it, an element or a function that returns one. */
export function showButton(button, isShown, next) {
  if (!isShown && document.activeElement === button) (typeof next === "function" ? next() : next)?.focus();
  button.hidden = !isShown;
}

/** Whether nothing has the focus, or what loses it once the page is drawn: it is disabled or hidden. */
export function isFocusLost() {
  const { activeElement: focused } = document;
  return focused === document.body || focused.disabled || focused.closest("[hidden]") !== null;
}

/** Run `change`; if it disables or hides the button in `place` that has the focus, `next` gets it. */
export function keepFocus(place, next, change) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  change();
  if (focused?.disabled || focused?.closest("[hidden]")) next().focus({ preventScroll: true });
}

/** Replace all children. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, ...children);
}

/** Set the text if it differs, to avoid a needless layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set or remove an attribute if it differs. For `aria-` attributes false is written out: a missing one means unknown. */
export function setAttr(element, name, value) {
  const isSaid = typeof value === "boolean" && name.startsWith("aria-");
  if (value === null || value === undefined || (value === false && !isSaid)) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

/**
 * Keep the children of an element in step with `items`. `views` has a view {el} by key; `create(item)` makes a missing one,
 * `update(view, item)` shows the item in it, `remove(view)` takes one away that has no item any more.
 */
export function reconcile(parent, views, items, { keyOf, create, update, remove = (view) => view.el.remove() }) {
  const keys = new Set(items.map(keyOf));
  for (const [key, view] of views) {
    if (keys.has(key)) continue;
    views.delete(key);
    remove(view);
  }
  let previous = null;
  for (const item of items) {
    const key = keyOf(item);
    if (!views.has(key)) views.set(key, create(item));
    const view = views.get(key);
    update(view, item);
    const next = previous ? previous.nextSibling : parent.firstChild;
    if (next !== view.el) parent.insertBefore(view.el, next);
    previous = view.el;
  }
}

const SVG = "http://www.w3.org/2000/svg";

// 16 × 16 px, strokes of 1.5 px.
const PATHS = {
  plus: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5l3.2 3.2L13 5",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4L6 8l4 4",
  send: "M8 13V3M3.5 7.5L8 3l4.5 4.5",
  stop: "M4.5 4.5h7v7h-7z",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
  edit: "M3 13l.6-2.9L10.8 3l2.2 2.2-7.1 7.2zM9.4 4.4l2.2 2.2",
  again: "M12.7 6A5 5 0 1 0 13 9M13 3v3h-3",
  light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7",
  dark: "M12.5 9.5A5 5 0 0 1 6.5 3.5a5 5 0 1 0 6 6z",
  auto: "M2.5 3.5h11v7h-11zM6 13h4M8 10.5V13",
  command: "M3.5 5.5L6 8l-2.5 2.5M8 11h4.5",
  tools: "M10.5 2.5a3.3 3.3 0 0 0-3 4.5L3 11.5 4.5 13 9 8.5a3.3 3.3 0 0 0 4.4-3.8l-1.9 1.9-1.8-.4-.4-1.8 1.9-1.9z",
  history: "M3 4.5V8h3.5M3.3 8A5 5 0 1 0 5 4.2L3.2 6M8 5.5V8l2 1.2",
  clip: "M12.5 7.5l-4.6 4.6a2.6 2.6 0 0 1-3.7-3.7l5-5a1.8 1.8 0 0 1 2.5 2.5l-4.8 4.8a.9.9 0 0 1-1.2-1.2l4-4",
  warn: "M8 2.5L14 13H2zM8 6.5v3M8 11.2v.3",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.3v3.9M8 4.8v.3",
  question: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM6.3 6.3a1.8 1.8 0 1 1 2.4 1.7c-.5.2-.7.5-.7 1M8 11.2v.3",
  more: "M3 4.5h10M3 8h10M3 11.5h10",
  shield: "M8 2l5 1.8v3.7c0 3-2 5.3-5 6.5-3-1.2-5-3.5-5-6.5V3.8z",
  bell: "M4.5 11V7a3.5 3.5 0 0 1 7 0v4M3 11h10M7 13.3h2",
  keys: "M2 4.5h12v7H2zM4.5 7h.01M7 7h.01M9.5 7h.01M12 7h.01M5 9.5h6",
};

/** One of the icons above, hidden from screen readers: its button or the text beside it has the name. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of [["viewBox", "0 0 16 16"], ["class", `icon icon-${name}`], ["aria-hidden", "true"]]) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** An icon button with an accessible name. */
export const iconButton = (name, label, onclick, props = {}) =>
  h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...props }, icon(name));

/** Copy text to the clipboard; resolves to whether that was allowed. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "sr-only", value: text });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy"); // the only way outside a secure context
    area.remove();
    return done;
  }
}

/** A button that copies the result of `text()` and confirms it. */
export function copyButton(text, label = "Copy") {
  const button = iconButton("copy", label, async () => {
    const done = await copyText(text());
    button.replaceChildren(icon(done ? "check" : "warn"));
    setAttr(button, "aria-label", done ? "Copied" : "Could not copy");
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      setAttr(button, "aria-label", label);
    }, 1_500);
  });
  return button;
}
