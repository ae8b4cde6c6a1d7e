# The first program in a sandbox on a host: starts commands by their names. POSIX sh; sent as an argument of `sh -c`.
# Parameter: the folder, read-only here, in which run.sh puts for each command NAME:
#   NAME.order   sh text that becomes the command
#   NAME.out     a FIFO for its standard output; NAME.err for its standard error
#   NAME.status  a FIFO for "begun", and for the exit code
# A line in the FIFO `orders` is a name. NEWEL_MOUNTED has words of sh: what `stat` must print, and the paths that are mounted here. It comes
# by the environment, as a process list shows parameters.
exec 2>/dev/null 3<>"$1/orders"
trap : HUP INT QUIT TERM # handled here, and so not ignored by what is started
at=$1
eval "set -- $NEWEL_MOUNTED"
judged=$1
[ $# -eq 0 ] || shift
unset NEWEL_MOUNTED
if [ $# -gt 0 ] && [ "$(echo $(PATH=/usr/bin:/bin:/run/current-system/sw/bin stat -c %d:%i -- "$@"))" != "$judged" ]; then
    echo other
    exit
fi
echo ready
exec >/dev/null
while :; do
    IFS= read -r name <&3 || continue
    case $name in '' | *[!0-9a-f]*) continue ;; esac
    # A background process of a shell would ignore SIGINT, and a foreground one would be waited for. So a shell in between is
    # killed by the other end of its pipe, and the command belongs to the sandbox's first process from then on.
    sh -c '
        at=$1/$2
        {
            order=$(cat "$at.order")
            [ "$order" ] && exec </dev/null >"$at.out" 2>"$at.err" 4>"$at.status" || exit
            echo begun >&4 # from now on, the files may be gone
            (
                exec 4>&-
                eval "$order"
            )
            echo $? >&4
        } | kill -s KILL $$
    ' sh "$at" "$name" 3<&-
done
