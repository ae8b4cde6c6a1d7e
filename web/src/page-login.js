// The page and its server prove to each other that they know the token (src/newel/web/page_login.py). Neither the token nor the key
// leaves the page, and before the server's proof it sends nothing else: another program may have taken the port (docs/adr/0098).

import { newId } from "./format.js";
import { hmac } from "./hmac.js";
import { localStore } from "./local-storage.js";

const HEADER = "Newel-Page-Proof";
const PATH = "/api/login";
const TIMEOUT = 10_000; // ms without an answer

let key = null; // a copy for browsers without storage
let proof = null; // for the server's present start, once that has proved itself

/** The token in an address; null if there is none. */
export function tokenOf(address) {
  try {
    return decodeURIComponent(/#token=([^&]+)$/.exec(address)[1]);
  } catch {
    return null; // also of an invalid encoding
  }
}

/** Forget that the server has proved itself: another program may answer next. */
export function forgetServer() {
  proof = null;
}

/** The subprotocols of a socket. */
export const subprotocols = () => ["newel", `newel-page-proof.${proof}`];

/**
 * Sign in, with the token in the address or else with the key of this browser, unless it is done. Resolves to "allowed", "denied"
 * or "unreachable"; then the token stays in the address.
 */
export async function signIn(signal) {
  if (proof) return "allowed";
  const token = tokenOf(location.hash);
  try {
    if (token) {
      const isRight = await useToken(token, signal);
      history.replaceState(null, "", location.pathname);
      if (isRight) return "allowed";
    }
    key = localStore.get("page-key") ?? key;
    return key && (await prove(key, signal)) ? "allowed" : "denied";
  } catch {
    return "unreachable";
  }
}

/** Sign in with a token. Resolves to whether it is right; rejects if the server cannot be reached, or does not know it itself. */
export async function useToken(token, signal) {
  const given = hmac(token, `key ${location.host}`);
  if (!(await prove(given, signal))) return false;
  key = given;
  localStore.set("page-key", key);
  return true;
}

async function prove(candidate, outer) {
  const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT), outer].filter(Boolean));
  let nonce = await askNonce(signal);
  for (;;) {
    const mine = hmac(candidate, `page ${nonce}`);
    const challenge = newId();
    const headers = { "Content-Type": "application/json", [HEADER]: mine };
    const answer = await fetch(PATH, { method: "POST", headers, body: JSON.stringify({ challenge }), signal });
    if (answer.ok) {
      if ((await answer.json()).proof !== hmac(candidate, `server ${nonce} ${challenge}`)) throw new Error("The server does not know the token.");
      proof = mine;
      return true;
    }
    if (answer.status !== 401) throw new Error(`The server answered ${answer.status}.`);
    const next = await askNonce(signal);
    if (next === nonce) return false;
    nonce = next; // the server was restarted meanwhile
  }
}

async function askNonce(signal) {
  const answer = await fetch(PATH, { cache: "no-store", signal });
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return (await answer.json()).nonce;
}

/** As `fetch`, with the proof of this page. Rejects while the server cannot be reached. */
export async function request(path, init = {}) {
  for (let again = true; ; again = false) {
    const access = await signIn(init.signal);
    if (access === "unreachable") throw new TypeError("The server cannot be reached.");
    if (access === "denied") return Response.json({ error: { code: "unauthorized", message: DENIED } }, { status: 401 });
    const used = proof;
    const answer = await fetch(path, { ...init, headers: { ...init.headers, [HEADER]: used } });
    if (answer.status !== 401 || !again) return answer;
    if (proof === used) forgetServer(); // of an earlier start
  }
}

const DENIED = "Newel no longer accepts this page. Reload it, and sign in with the address that Newel printed.";
