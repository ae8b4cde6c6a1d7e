// Objects whose keys come from elsewhere: paths, names of tools, parts of an address.

/** The entries of `sources` without the names that every other object inherits, such as "constructor". */
export const dictionary = (...sources) => Object.assign(Object.create(null), ...sources);
