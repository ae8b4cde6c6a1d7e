// Entry point of the desktop shell: the workbench in a window of its own. src/app.js has the rest.

import { app, BrowserWindow, dialog, Menu, nativeTheme, Notification, screen, shell } from "electron";
import { dirname } from "node:path";

import { startApp } from "./src/app.js";

const checkout = app.isPackaged ? null : dirname(import.meta.dirname);
await startApp({ app, BrowserWindow, dialog, Menu, nativeTheme, Notification, screen, shell }, { checkout, argv: process.argv, env: process.env });
