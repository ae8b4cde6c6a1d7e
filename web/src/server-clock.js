// The clock of the server, whose times the events have: the browser's machine may have another.

let ahead = 0; // of this machine's clock, ms

/** Tell what time (ISO 8601) it is on the server now. */
export function setServerTime(time) {
  ahead = Date.parse(time) - Date.now() || 0;
}

/** The time on the server, ms since 1970. */
export const serverNow = () => Date.now() + ahead;
