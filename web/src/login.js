// Login: the token in the URL's fragment is exchanged for a cookie, then removed from the address.

import { fill, h, icon } from "./dom.js";

const TIMEOUT = 10_000; // ms without an answer

/** The token in an address, or null. */
export const tokenOf = (address) => /#token=([^&]+)$/.exec(address)?.[1] ?? null;

/**
 * Whether the server accepts this page, by the token in the address or else by the cookie. Also true while the server cannot
 * be reached: the socket reconnects then, and the token stays in the address until it was accepted.
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

/** Show the login form in place of the page. */
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
      location.assign(given); // of another server
      return;
    }
    try {
      const { ok, status } = await logIn(token, AbortSignal.timeout(TIMEOUT));
      if (ok) location.reload();
      else refuse(status === 401 ? "This address belongs to another start of Newel." : `Newel answered ${status}.`);
    } catch {
      refuse("Cannot reach Newel. Is it still running?");
    }
  };
  fill(
    document.getElementById("page"),
    h("main", { class: "empty whole" },
      h("h1", {}, "newel"),
      h("p", { class: "empty-title" }, "Sign in with the address that Newel printed."),
      h("p", {}, "Paste the URL that ", h("code", {}, "newel web"), " printed when it started; it ends in ", h("code", {}, "#token=…"), "."),
      h("form", { class: "address", onsubmit: enter }, box, h("button", { type: "submit", class: "primary" }, "Open")),
      problem,
      h("p", { class: "dim" }, "Your drafts and decisions are saved in this browser.")),
  );
  box.focus();
}
