// What a page may do: stay on its server, and hand other links to the browser.

/** Links of the help page, which has no scripts. They are never requested. */
export const ACTIONS = "https://newel.invalid/";

const EXTERNAL = new Set(["http:", "https:", "mailto:"]);
const PERMISSIONS = new Set(["notifications", "clipboard-sanitized-write", "clipboard-read"]);

/**
 * @typedef {{ kind: "own" } | { kind: "action", name: string } | { kind: "external", url: string } | { kind: "refused" }} Destination
 */

/**
 * Where a link leads. `origin` is the server's, null while there is none; `isHelp` is whether the help page asks.
 * @param {string} address @param {{ origin: string | null, isHelp: boolean }} page
 * @returns {Destination}
 */
export function destinationOf(address, { origin, isHelp }) {
  const url = URL.parse(address);
  if (!url) return { kind: "refused" };
  if (url.href.startsWith(ACTIONS)) return isHelp ? { kind: "action", name: url.pathname.slice(1) } : { kind: "refused" };
  if (origin !== null && url.origin === origin) return isHelp ? { kind: "refused" } : { kind: "own" };
  if (EXTERNAL.has(url.protocol) && !url.username && !url.password) return { kind: "external", url: url.href };
  return { kind: "refused" };
}

/** Whether the page of `origin` may have a permission. @param {string} permission @param {string} requester @param {string | null} origin */
export const isPermitted = (permission, requester, origin) =>
  PERMISSIONS.has(permission) && origin !== null && URL.parse(requester)?.origin === origin;
