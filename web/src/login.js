// The way in: the token stands in the URL's fragment, is exchanged for a cookie, and leaves the address.

/** Whether the server takes our cookie; true as well while there is no server to ask. */
export async function isAllowed() {
  try {
    return (await fetch("/api/state", { cache: "no-store" })).status !== 401;
  } catch {
    return true;
  }
}

/** Log in with the token of the address, if there is one. Resolves to whether this page may connect. */
export async function login() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return isAllowed();
  history.replaceState(null, "", location.pathname);
  try {
    const reply = await fetch("/api/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: decodeURIComponent(token) }),
    });
    return reply.ok;
  } catch {
    return true; // no server at the moment: the socket says "Reconnecting…"
  }
}
