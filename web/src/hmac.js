// HMAC-SHA-256 in hexadecimal digits. Browsers offer it on this machine and over HTTPS only, but `--bind` serves others over HTTP:
// one way that always works leaves none that does less.

const BLOCK = 64; // bytes
const FRACTION = 2 ** 32;

/** The first 64 prime numbers. */
const PRIMES = [];
for (let each = 2; PRIMES.length < 64; each += 1) if (PRIMES.every((prime) => each % prime)) PRIMES.push(each);

const START = PRIMES.slice(0, 8).map((prime) => (Math.sqrt(prime) * FRACTION) | 0);
const ROUNDS = PRIMES.map((prime) => (Math.cbrt(prime) * FRACTION) | 0);

const turn = (word, bits) => (word >>> bits) | (word << (32 - bits));

/** The SHA-256 of bytes, as bytes. */
export function sha256(bytes) {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  const hash = [...START];
  const words = new Int32Array(64);
  for (let at = 0; at < padded.length; at += BLOCK) {
    for (let i = 0; i < 16; i += 1) words[i] = view.getInt32(at + 4 * i);
    for (let i = 16; i < 64; i += 1) {
      const [late, early] = [words[i - 2], words[i - 15]];
      const ofLate = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
      const ofEarly = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
      words[i] = words[i - 16] + ofEarly + words[i - 7] + ofLate;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i += 1) {
      const one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i];
      const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => { hash[i] = (hash[i] + word) | 0; });
  }
  const digest = new DataView(new ArrayBuffer(32));
  hash.forEach((word, i) => digest.setInt32(4 * i, word));
  return new Uint8Array(digest.buffer);
}

const joined = (one, two) => new Uint8Array([...one, ...two]);

/** The HMAC-SHA-256 of a text under a key, a text too, in hexadecimal digits. */
export function hmac(key, text) {
  const encoder = new TextEncoder();
  const bytes = encoder.encode(key);
  const block = new Uint8Array(BLOCK);
  block.set(bytes.length > BLOCK ? sha256(bytes) : bytes);
  const inner = sha256(joined(block.map((byte) => byte ^ 0x36), encoder.encode(text)));
  const outer = sha256(joined(block.map((byte) => byte ^ 0x5c), inner));
  return [...outer].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
