// Where the page begins.

import { login, showDenied } from "./login.js";
import { Page } from "./page.js";

if (await login()) new Page().start();
else showDenied();
