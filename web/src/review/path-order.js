// The order of files in lists. Pure functions.

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** Compare two names in natural order: f2 before f10, capital and small letters together; what is equal then, by its characters. */
export const compareNames = (one, other) => collator.compare(one, other) || (one < other ? -1 : Number(one > other));

function compareParts(names, others) {
  const at = names.findIndex((name, depth) => name !== others[depth]);
  if (at < 0 || at >= others.length) return names.length - others.length;
  return compareNames(names[at], others[at]);
}

/** Compare two paths, folder by folder. */
export const comparePaths = (one, other) => compareParts(one.split("/"), other.split("/"));

/** Things with a `file_path`, in the order of their paths; each path is split once, as there may be 10,000. */
export const inOrder = (files) =>
  files.map((file) => [file.file_path.split("/"), file]).sort(([one], [other]) => compareParts(one, other)).map(([, file]) => file);
