# Runs a program on a host and ends it when Newel is gone. POSIX sh, with only the utilities of a minimal system.
#
# Parameters, set before this text:
#   nonce      frames the output
#   mark       identifies the program's processes by their environment
#   number     the same by a resource limit that processes inherit, on Linux
#   root       the folder to run in, or empty
#   size       bytes of standard input that are for the program
#   silence    seconds without a heartbeat until the program is ended
#   grace      twentieths of a second between TERM and KILL
#   dropped    names of variables that the program must not see
#   sensitive  a regular expression for names of more such variables (for secrets.sh, whose text precedes this one)
#   export_variables  a function that sets other variables
#   exchange   the folder through which a sandbox is told what to run, or empty (see sandbox/launcher.sh)
#   order      what it is told
#   "$@"       the program, unless it runs in a sandbox
#
# Standard input: the line with all this, `size` bytes, then one line per heartbeat. Its end is the order to end the program.

# --- finding and ending processes ---

# Sets state, group and session of a process, given its folder in /proc. The name before these fields may contain anything.
read_stat() {
    IFS= read -r line <"$1/stat" || return
    set -- ${line##*) }
    state=$1 group=$3 session=$4
}

# Prints the files in /proc that contain the mark or the number.
find_marked() {
    grep -lsE "^Max realtime timeout +$number " /proc/[0-9]*/limits
    if [ ! "$stops_at_nul" ]; then
        grep -ls "$mark" /proc/[0-9]*/environ
        return
    fi
    tail -n +1 /proc/[0-9]*/environ | tr '\0' '\n' | grep -e '^==> /proc/[0-9]*/environ <==$' -e "$mark" |
        while read -r first file _; do
            if [ "$first" = '==>' ]; then each=$file; else tr '\0' '\n' <"$each" | grep -q "$mark" && echo "$each"; fi
        done
}

# Sets `targets` for `kill`. A session with a marked process belongs to the program as a whole, including processes that have
# dropped the mark; a process that has left for its own session still carries it.
find_in_proc() {
    targets=
    read_stat /proc/$$ && own=$session
    for each in $(find_marked); do
        each=${each%/*} session=
        read_stat "$each"
        case $session in
        '' | *[!0-9]* | "$own") targets="$targets ${each#/proc/}" ;;
        *) case "|$sessions|" in *"|$session|"*) ;; *) sessions="$sessions${sessions:+|}$session" ;; esac ;;
        esac
    done
    [ "$sessions" ] || return
    for each in $(grep -lsE "\) [^ZX] -?[0-9]+ [0-9]+ ($sessions) " /proc/[0-9]*/stat); do
        read_stat "${each%/stat}" || continue
        case "|$sessions|" in
        *"|$session|"*) case "$targets " in *" -$group "*) ;; *) targets="$targets -$group" ;; esac ;;
        esac
    done
}

# The same without /proc: by the environments that ps shows, by parents, and by groups found before.
find_by_ps() {
    targets=$({
        echo "$mark $$ $sessions"
        ps -AEww -o pid= -o ppid= -o pgid= -o stat= -o command= ||
            ps axeww -o pid= -o ppid= -o pgid= -o stat= -o command=
    } | awk '
        NR == 1 { mark = $1; main = $2; for (i = 3; i <= NF; i++) known[$i] = 1; next }
        $4 !~ /Z/ { parent[$1] = $2; group[$1] = $3; if (index($0, mark)) named[$1] = 1 }
        END {
            own = group[main]
            for (pid in group) {
                up = pid
                for (steps = 0; up in parent && up != main && steps < 1000; steps++) up = parent[up]
                if (group[pid] == own) { if (pid in named) print pid }
                else if (pid in named || up == main || (-group[pid]) in known) print -group[pid]
            }
        }')
    for each in $targets; do case $each in -*) sessions="$sessions $each" ;; esac; done
}

# Ends processes until none is left and the program is over, which TERM reports: the program may only be starting now.
end_all() {
    trap '' USR1
    trap 'over=1' TERM
    over= term_sent= own= sessions= tick=0 rounds=0 stops_at_nul=1 LC_ALL=C
    printf 'a\0b\n' | grep -q b && stops_at_nul= # some greps read a line only up to the first NUL
    while [ $rounds -lt 20 ]; do
        if [ -r /proc/$$/environ ]; then find_in_proc; else find_by_ps; fi
        if [ ! "$targets" ]; then
            [ ! "$over" ] || return
        elif [ $tick -ge $grace ]; then
            kill -s KILL -- $targets
        elif [ ! "$term_sent" ]; then
            kill -s TERM -- $targets
            term_sent=1
        fi
        # A search is expensive: do it often at first and after KILL, and seldom in between.
        pause=0.05 ticks=1
        if [ $tick -ge $grace ]; then rounds=$((rounds + 1)); elif [ $tick -ge 5 ]; then pause=0.25 ticks=5; fi
        sleep $pause || { sleep 1 && ticks=20; }
        tick=$((tick + ticks))
    done
    say_status ended # a launcher that has been stopped reports nothing
}

# --- watching for silence ---

# Reads heartbeats until end of input.
read_heartbeats() {
    while IFS= read -r heartbeat <&3; do kill -s USR1 $timer; done
    end_all
    kill $timer # in case the main shell is gone
}

# Ends the sleep of `watch_silence`. Before there is one, $! is 0 in some shells, which would kill the whole process group.
end_sleep() {
    [ "$!" = 0 ] || kill $!
}

# Ends the program when no heartbeat has come for too long, as a vanished connection sends no end of input. Each heartbeat ends a
# sleep. Status 77 means silence, so that a Newel that was only suspended does not mistake it for the program's own end.
watch_silence() {
    exec 3<&- 4>&- >/dev/null
    trap end_sleep USR1
    trap 'end_sleep; exit 0' TERM
    silent=
    while
        sleep $silence &
        [ ! "$silent" ]
    do wait $! && silent=1; done
    end_sleep
    end_all
    exit 77
}

# --- running the program ---

# Turns the given bytes into standard input, through a file that is unlinked before it is written: the program may read slowly,
# while heartbeats follow on the connection.
receive() {
    file=${TMPDIR:-/tmp}/.newel-$mark
    (umask 077 && set -C && : >"$file") || return
    exec 5<"$file" 6>>"$file" 7<"$file"
    rm -f -- "$file" && head -c $size <&3 >&6 || return
    [ $(wc -c <&7) -eq $size ] || return # never run a program on truncated input
    exec <&5 5<&- 6>&- 7<&-
}

run() (
    secrets=$(secret_names)
    if [ $? -gt 1 ]; then # 1: there are none
        echo 'Not run: secrets cannot be withheld from commands here. Install env, sed and grep on this host.' >&4
        exit 126
    fi
    unset $dropped $secrets
    export_variables
    export NEWEL_RUN="${NEWEL_RUN:+$NEWEL_RUN }$mark"
    if prlimit --rttime=$number: true </dev/null; then set -- prlimit --rttime=$number: "$@"; fi
    exec "$@" 2>&4 3<&- 4>&-
)

# --- running the program in a sandbox ---

# Answers in place of the launcher.
say_status() {
    [ ! "$exchange" ] || [ ! -p "$at.status" ] || echo $1 1<>"$at.status"
}

# Waits for the launcher to begin, but not forever: a command may have stopped it.
watch_launcher() {
    exec 3<&- 4>&- 5<&- 6<&- 7<&- 8<&- 9<&- >/dev/null
    trap 'kill $!; exit' TERM
    sleep 5 &
    wait $!
    say_status stopped
}

# Has the launcher run the order, passes on what that prints, and sets `code`. The FIFOs are opened for both directions first,
# which waits for nobody; later only as they are used, so that an end is noticed.
run_inside() {
    code=306
    (umask 077 && mkfifo "$at.out" "$at.err" "$at.status" && printf %s "$order" >"$at.order") || return
    exec 5<>"$at.out" 6<>"$at.err" 8<>"$at.status" 7<"$at.out" 9<"$at.err"
    cat <&7 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&- &
    cat <&9 >&4 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&- &
    watch_launcher &
    watcher=$!
    echo $mark 1<>"$exchange/orders"
    IFS= read -r word <&8
    kill $watcher
    exec 5>"$at.out" 6>"$at.err" 7<"$at.status" 8<&- 9<&-
    rm -f -- "$at.out" "$at.err" "$at.order"
    # From here on, all that is printed follows what the command has printed.
    exec >&5 4>&6 5>&- 6>&-
    [ "$word" = begun ] || return
    IFS= read -r word <&7
    rm -f -- "$at.status"
    case $word in
    [0-9] | [0-9][0-9] | [0-9][0-9][0-9]) [ $word -gt 255 ] || code=$word ;;
    esac
}

print_both() {
    printf "$@"
    printf "$@" >&4
}

finish() {
    print_both '\036%s %03d\036' $nonce $1
    exit
}

# Discard messages of this shell itself, such as "Killed".
exec 3<&0 4>&2 </dev/null 2>/dev/null
at=$exchange/$mark
print_both '\036%s\036' $nonce
if [ "$root" ] && ! cd -P -- "$root"; then
    [ -e "$root" ] || finish 301
    [ -d "$root" ] || finish 302
    finish 303
fi
if [ $size -gt 0 ]; then receive || finish 304; fi
if command -v setsid >/dev/null; then
    set -- setsid "$@"
elif command -v perl >/dev/null; then
    set -- perl -MPOSIX -e 'POSIX::setsid(); exec { $ARGV[0] } @ARGV; exit 127' -- "$@"
fi
trap '' USR1 # an early heartbeat must not kill `watch_silence` before it sets its own trap
watch_silence &
timer=$!
trap - USR1
read_heartbeats >/dev/null 4>&- &
reader=$!
# In the foreground: a non-interactive shell starts background programs with SIGINT ignored.
if [ "$exchange" ]; then
    run_inside
else
    run "$@"
    code=$?
fi
kill $reader $timer
wait $reader
wait $timer
[ $? -ne 77 ] || finish 305
finish $code
