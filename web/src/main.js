// Entry point of the page.

import { keepClicks, keepCompositions } from "./dom.js";
import { showDenied } from "./login.js";
import { signIn, tokenOf } from "./page-login.js";
import { startPage } from "./page.js";

addEventListener("hashchange", () => tokenOf(location.hash) && location.reload()); // a server's URL was pasted into this page
keepClicks();
keepCompositions();
if ((await signIn()) === "denied") showDenied();
else startPage();
