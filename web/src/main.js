// Where the page begins.

import { isAllowed, showDenied, tokenOf } from "./login.js";
import { Page } from "./page.js";

addEventListener("hashchange", () => tokenOf(location.hash) && location.reload()); // a server's URL was pasted into this page
if (await isAllowed()) new Page().start();
else showDenied();
