// The way in: the token stands in the URL's fragment, is exchanged for a cookie, and leaves the address.

import { fill, h } from "./dom.js";

/** Whether the server takes our cookie; true as well while there is no server to ask. */
export async function isAllowed() {
  try {
    return (await fetch("/api/state", { cache: "no-store" })).status !== 401;
  } catch {
    return true;
  }
}

/** Log in with the token of the address, if there is one. Resolves to whether this page may connect. */
export async function login() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return isAllowed();
  history.replaceState(null, "", location.pathname);
  try {
    const reply = await fetch("/api/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: decodeURIComponent(token) }),
    });
    return reply.ok;
  } catch {
    return true; // no server at the moment: the socket says "Reconnecting…"
  }
}

/** Say what to do, in place of the page. */
export function showDenied() {
  fill(
    document.getElementById("page"),
    h("main", { class: "empty whole" },
      h("h1", {}, "newel"),
      h("p", { class: "empty-title" }, "This page needs the address that Newel printed."),
      h("p", {}, "Open the URL that ", h("code", {}, "newel web"), " printed when it started; it ends in ", h("code", {}, "#token=…"),
        ". After a restart of Newel there is a new one.")),
  );
  addEventListener("hashchange", () => location.reload());
}
