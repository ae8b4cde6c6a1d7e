// Entry point of the page.

import { isAllowed, showDenied, tokenOf } from "./login.js";
import { startPage } from "./page.js";

addEventListener("hashchange", () => tokenOf(location.hash) && location.reload()); // a server's URL was pasted into this page
if (await isAllowed()) startPage();
else showDenied();
