// Entry point of the page.

import { keepClicks } from "./dom.js";
import { isAllowed, showDenied, tokenOf } from "./login.js";
import { startPage } from "./page.js";

addEventListener("hashchange", () => tokenOf(location.hash) && location.reload()); // a server's URL was pasted into this page
keepClicks();
if (await isAllowed()) startPage();
else showDenied();
