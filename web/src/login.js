// The login form, for a page that has neither the token nor its key.

import { fill, h, icon } from "./dom.js";
import { tokenOf, useToken } from "./page-login.js";

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
      if (await useToken(token)) location.reload();
      else refuse("This address is no longer valid. Use the one that Newel printed at its latest start.");
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
