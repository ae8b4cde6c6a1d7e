// The way in: the token stands in the URL's fragment, is exchanged for a cookie, and leaves the address once that is done.

import { fill, h, icon } from "./dom.js";

const TIMEOUT = 10_000; // ms without an answer

/** The token of an address, or null. */
export const tokenOf = (address) => /#token=([^&]+)$/.exec(address)?.[1] ?? null;

/**
 * Whether the server lets this page in: by the token of the address, if there is one, else by its cookie. True as well while
 * there is no server to ask: the socket then says that it tries again, and the token stays until it was taken.
 */
export async function isAllowed(signal = AbortSignal.timeout(TIMEOUT)) {
  const token = tokenOf(location.hash);
  try {
    if (!token) return (await fetch("/api/state", { cache: "no-store", signal })).status !== 401;
    const { ok, status } = await logIn(decodeURIComponent(token), signal);
    if (ok || status === 401) history.replaceState(null, "", location.pathname);
    return ok || status !== 401 || isAllowed(signal);
  } catch {
    return true;
  }
}

const logIn = (token, signal) =>
  fetch("/api/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }), signal });

/** Say what to do, in place of the page. */
export function showDenied() {
  const problem = h("p", { class: "problem bad-text", role: "alert" });
  const box = h("input", {
    type: "text", class: "mono", "aria-label": "Address", placeholder: "http://127.0.0.1:…/#token=…", autocomplete: "off", spellcheck: "false",
  });
  const refuse = (words) => fill(problem, icon("warn"), words);
  const enter = async (event) => {
    event.preventDefault();
    const given = box.value.trim();
    const token = tokenOf(given) ?? given;
    if (/^https?:/i.test(given) && URL.canParse(given) && new URL(given).origin !== location.origin) {
      location.assign(given); // another server's
      return;
    }
    try {
      const { ok, status } = await logIn(token, AbortSignal.timeout(TIMEOUT));
      if (ok) location.reload();
      else refuse(status === 401 ? "This is not the address of the Newel that runs here now." : `Newel answered ${status}.`);
    } catch {
      refuse("Newel does not answer. Is it still running?");
    }
  };
  fill(
    document.getElementById("page"),
    h("main", { class: "empty whole" },
      h("h1", {}, "newel"),
      h("p", { class: "empty-title" }, "This page needs the address that Newel printed."),
      h("p", {}, "Paste the URL that ", h("code", {}, "newel web"), " printed when it started; it ends in ", h("code", {}, "#token=…"), "."),
      h("form", { class: "address", onsubmit: enter }, box, h("button", { type: "submit", class: "primary" }, "Open")),
      problem,
      h("p", { class: "dim" }, "What you wrote and decided is kept, and is here again afterwards.")),
  );
  box.focus();
}
