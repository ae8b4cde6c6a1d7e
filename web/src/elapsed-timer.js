// Elapsed times that update while they are on the page, with one timer for all.

import { h, setText } from "./dom.js";
import { formatDuration } from "./format.js";
import { serverNow } from "./server-clock.js";

const counting = new Map(); // element → start, ms since 1970 on the server
let timer = null;

function tick() {
  for (const [element, start] of counting) {
    if (element.isConnected) setText(element, words(start));
    else counting.delete(element);
  }
  if (counting.size === 0) {
    clearInterval(timer);
    timer = null;
  }
}

const words = (start) => {
  const passed = serverNow() - start;
  return passed < 1_000 ? "" : formatDuration(Math.floor(passed / 1_000) * 1_000).replace(".0 s", " s");
};

/** An element that shows the time since `since` (ISO 8601), or since now, while it is in the page. */
export function elapsedTimer(since) {
  const start = Math.min(Date.parse(since) || serverNow(), serverNow());
  const element = h("span", { class: "elapsed" }, words(start));
  requestAnimationFrame(() => {
    if (!element.isConnected) return;
    counting.set(element, start);
    timer ??= setInterval(tick, 1_000);
  });
  return element;
}
