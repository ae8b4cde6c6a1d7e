// Colour theme: the system's preference, or the user's choice. theme-init.js sets it before the first paint.

import { localStore } from "./local-storage.js";

const ORDER = ["auto", "light", "dark"];

export const theme = () => localStore.get("theme") ?? "auto";

export function setTheme(name) {
  localStore.set("theme", name === "auto" ? null : name);
  if (name === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", name);
}

export const nextTheme = () => setTheme(ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length]);
