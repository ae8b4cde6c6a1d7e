// The port of a folder's server. A browser keeps drafts and settings by address, so a folder keeps its port.

import { createServer } from "node:net";

/**
 * `preferred` if it is free on this machine, else 0, for which the server takes a free one.
 * @param {number} preferred
 * @returns {Promise<number>}
 */
export function choosePort(preferred) {
  if (!Number.isInteger(preferred) || preferred < 1024 || preferred > 65535) return Promise.resolve(0);
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(0));
    probe.listen({ port: preferred, host: "127.0.0.1", exclusive: true }, () => probe.close(() => resolve(preferred)));
  });
}
