// Proves that a server knows the token (docs/protocol.md): another program may have taken its port.

import { createHmac, randomUUID } from "node:crypto";

const TIMEOUT = 5_000; // ms

/** @param {string} key @param {string} text */
const hmac = (key, text) => createHmac("sha256", key).update(text).digest("hex");

/**
 * Whether the server at an origin knows the token, which is not sent. Rejects if it cannot be reached, or answers otherwise.
 * @param {string} origin @param {string} token @returns {Promise<boolean>}
 */
export async function knowsToken(origin, token) {
  const signal = AbortSignal.timeout(TIMEOUT);
  const url = `${origin}/api/login`;
  const key = hmac(token, `key ${new URL(origin).host}`);
  const { nonce } = await read(await fetch(url, { signal }));
  const challenge = randomUUID();
  const headers = { "Content-Type": "application/json", Origin: origin, "Newel-Page-Proof": hmac(key, `page ${nonce}`) };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify({ challenge }), signal });
  return (await read(answer)).proof === hmac(key, `server ${nonce} ${challenge}`);
}

/** @param {Response} answer @returns {Promise<any>} */
async function read(answer) {
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return answer.json();
}
