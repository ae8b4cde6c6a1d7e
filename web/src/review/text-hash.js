// A short hash of a text, to recognize it. Not cryptographic.

const PRIME = 0x01000193;

/** 64 bits of a text, as 16 hexadecimal digits. */
export function hashText(text) {
  let [a, b] = [0x811c9dc5, 0x9dc5811c];
  for (let at = 0; at < text.length; at += 1) {
    const sign = text.charCodeAt(at);
    a = Math.imul(a ^ sign, PRIME);
    b = Math.imul(b ^ sign ^ (a >>> 15), PRIME);
  }
  return [a, b].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}
