// The places of the page that are no chats and no agents: a file, a comparison, all that waits, the checkpoints, the requests.
// Each has an id, which is its address too: "file/src/a.py", "compare/cp_1/src/a.py", "pending", "checkpoints",
// "requests", "request/job_1".

const NAMES = { pending: "Everything that waits", checkpoints: "Checkpoints", requests: "Requests" };

export const fileId = (path) => `file/${path}`;
export const requestId = (job) => `request/${job}`;
export const compareId = (checkpoint, path) => `compare/${checkpoint}/${path}`;

/** {kind, path, checkpoint, job} of an id; null for one that is none. */
export function parsePlace(id) {
  if (NAMES[id]) return { kind: id };
  const [kind, ...rest] = id.split("/");
  if (kind === "file" && rest.join("/")) return { kind, path: rest.join("/") };
  if (kind === "request" && rest.length === 1 && rest[0]) return { kind, job: rest[0] };
  const [checkpoint, ...path] = rest;
  return kind === "compare" && checkpoint && path.length ? { kind, checkpoint, path: path.join("/") } : null;
}

/** What the tab of a place is called. */
export function titleOf(id) {
  const { kind, path } = parsePlace(id);
  if (NAMES[kind]) return NAMES[kind];
  if (kind === "request") return "Request";
  const name = path.split("/").at(-1);
  return kind === "compare" ? `${name} ⇄` : name;
}

/** By path: what of its folder tells a file from the others of the same name, "" where nothing needs to. */
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

/** The id that an address names; null if it names none. */
export function idOf(hash) {
  try {
    const id = hash.replace(/^#\//, "").split("/").map(decodeURIComponent).join("/");
    return hash.startsWith("#/") && parsePlace(id) ? id : null;
  } catch {
    return null; // no proper encoding
  }
}
