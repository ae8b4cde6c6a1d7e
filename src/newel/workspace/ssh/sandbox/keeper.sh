# Keeps a sandbox on a host, as a program of run.sh, which ends it when Newel is gone. POSIX sh; sent as an argument of `sh -c`.
# Parameters:
#   $1  the folder to make, through which commands are started; see launcher.sh
#   $2  bubblewrap
#   $3  the filter of system calls, as printf %b reads it
#   $4  launcher.sh
# Standard input: the arguments of bubblewrap, each ended by NUL.
mask=$(umask)
umask 077
at=$1 program=$2 filter=$3 launcher=$4
# What killed ones have left: FIFOs, which nobody uses.
for each in "${at%-*}"-*; do
    [ -O "$each" ] && [ ! -L "$each" ] && [ -s "$each/pid" ] || continue
    kill -0 "$(cat "$each/pid")" 2>/dev/null || rm -rf -- "$each"
done
mkdir -- "$at" && mkfifo "$at/orders" && echo $$ >"$at/pid" && printf %b "$filter" >"$at/filter" || exit 1
trap : TERM # the end of bubblewrap is waited for
exec 8<&0 9<"$at/filter" </dev/null
rm -f -- "$at/filter"
ulimit -c 0
umask "$mask"
"$program" --args 8 sh -c "$launcher" sh /run/newel
code=$?
# If the first of its processes ends while it starts, the second one waits for ever. It has the mark of run.sh, as this shell has.
mark=${NEWEL_RUN##* }
[ ${#mark} -eq 32 ] && for each in $(grep -ls "$mark" /proc/[0-9]*/environ); do
    each=${each#/proc/} each=${each%/environ}
    [ "$each" = $$ ] || kill -s KILL "$each"
done 2>/dev/null
for each in "$at"/*.status; do
    [ ! -p "$each" ] || echo ended 1<>"$each"
done
rm -rf -- "$at"
exit $code
