// The places of the page besides chats and agents: a file, a comparison, all pending changes, the checkpoints, the requests, the fleets.
// The id of a place is its address, too: "file/src/a.py", "compare/cp_1/src/a.py", "pending", "checkpoints",
// "requests", "request/job_1", "fleets", "fleet/7c1f2a90", "fleet-job/3f9c".

import { dictionary } from "../dictionary.js";

const NAMES = dictionary({ pending: "All pending changes", checkpoints: "Checkpoints", requests: "Requests", fleets: "Fleets" });
const BY_ID = dictionary({ request: "job", fleet: "fleet", "fleet-job": "job" }); // kind → what its id is called

export const fileId = (path) => `file/${path}`;
export const requestId = (job) => `request/${job}`;
export const fleetId = (fleet) => `fleet/${fleet}`;
export const fleetJobId = (job) => `fleet-job/${job}`;
export const compareId = (checkpoint, path) => `compare/${checkpoint}/${path}`;

/** Parse an id into {kind, path, checkpoint, job, fleet}; null if it is invalid. */
export function parsePlace(id) {
  if (NAMES[id]) return { kind: id };
  const [kind, ...rest] = id.split("/");
  if (kind === "file" && rest.join("/")) return { kind, path: rest.join("/") };
  if (BY_ID[kind]) return rest.length === 1 && rest[0] ? { kind, [BY_ID[kind]]: rest[0] } : null;
  const [checkpoint, ...path] = rest;
  return kind === "compare" && checkpoint && path.length ? { kind, checkpoint, path: path.join("/") } : null;
}

/** The title of a place's tab. */
export function titleOf(id) {
  const { kind, path, fleet } = parsePlace(id);
  if (NAMES[kind]) return NAMES[kind];
  if (kind === "request") return "Request";
  if (kind === "fleet") return `Fleet ${fleet}`;
  if (kind === "fleet-job") return "Job";
  const name = path.split("/").at(-1);
  return kind === "compare" ? `${name} ⇄` : name;
}

/** By path: the part of the folder that distinguishes files of the same name; "" if not needed. */
export function foldersOf(paths) {
  const all = [...new Set(paths)].map((path) => ({ path, folders: path.split("/").slice(0, -1), name: path.split("/").at(-1) }));
  const tail = ({ folders }, count) => folders.slice(-count).join("/");
  return new Map(all.map((each) => {
    const others = all.filter((other) => other !== each && other.name === each.name);
    let count = 1;
    while (count < each.folders.length && others.some((other) => tail(other, count) === tail(each, count))) count += 1;
    return [each.path, others.length === 0 ? "" : tail(each, count) || "./"];
  }));
}

export const hashOf = (id) => `#/${id.split("/").map(encodeURIComponent).join("/")}`;

/** The id in an address; null if there is none. */
export function idOf(hash) {
  try {
    const id = hash.replace(/^#\//, "").split("/").map(decodeURIComponent).join("/");
    return hash.startsWith("#/") && parsePlace(id) ? id : null;
  } catch {
    return null; // invalid encoding
  }
}
