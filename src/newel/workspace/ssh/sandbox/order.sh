# Becomes a command in a sandbox; see launcher.sh. POSIX sh.
# Set before this text: root, mark and number (as for run.sh), limits (options of prlimit), and "$@", the program.
cd -P -- "$root" || exit 1
for each in $limits; do
    if ! command -v prlimit >/dev/null; then
        echo 'Not run: the limits of [sandbox] in config.toml need prlimit on this host (in the package util-linux).' >&2
        exit 126
    fi
    if prlimit "$each" true 2>/dev/null; then set -- prlimit "$each" "$@"; fi # else a stricter one holds
done
if prlimit --rttime="$number": true 2>/dev/null; then set -- prlimit --rttime="$number": "$@"; fi
# Marked in a session of its own only: what has the mark is ended with its whole session.
set -- env NEWEL_RUN="${NEWEL_RUN:+$NEWEL_RUN }$mark" "$@"
if command -v setsid >/dev/null; then
    set -- setsid "$@"
elif command -v perl >/dev/null; then
    set -- perl -MPOSIX -e 'POSIX::setsid(); exec { $ARGV[0] } @ARGV; exit 127' -- "$@"
fi
exec "$@"
