# Becomes a command in a sandbox; see launcher.sh. POSIX sh.
# Set before this text: root, mark and number (as for run.sh), and "$@", the program.
cd -P -- "$root" || exit 1
if prlimit --rttime="$number": true 2>/dev/null; then set -- prlimit --rttime="$number": "$@"; fi
# Marked in a session of its own only: what has the mark is ended with its whole session.
set -- env NEWEL_RUN="${NEWEL_RUN:+$NEWEL_RUN }$mark" "$@"
if command -v setsid >/dev/null; then
    set -- setsid "$@"
elif command -v perl >/dev/null; then
    set -- perl -MPOSIX -e 'POSIX::setsid(); exec { $ARGV[0] } @ARGV; exit 127' -- "$@"
fi
exec "$@"
