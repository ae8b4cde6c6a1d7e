# Runs one program on a host and ends it when nobody is there any more. POSIX sh, and nothing but what a bare system has.
#
# Set before: `nonce` frames what is printed, `mark` names the program's processes, and so does `number` where Linux hands it down, `root` is the folder to run in (or
# empty), `size` counts the bytes that are for the program's standard input, `silence` is how many seconds may pass
# without a sign of life, `grace` how many twentieths of a second lie between TERM and KILL, `dropped` and
# `sensitive` tell what variables the program must not see, by name and by what is found in their names; `dress` is a
# function that sets others, and "$@" is the program. Standard input: the line with all this, `size` bytes, then
# lines as signs of life until its end, which is the order to end everything.

# --- finding and ending ---

# Sets state, group and session of a process by its folder in /proc. The name before them may hold anything.
look() {
    IFS= read -r line <"$1/stat" || return
    set -- ${line##*) }
    state=$1 group=$3 session=$4
}

# Prints where in /proc the mark is found, or the number.
marked() {
    grep -lsE "^Max realtime timeout +$number " /proc/[0-9]*/limits
    if [ ! "$blind" ]; then
        grep -ls "$mark" /proc/[0-9]*/environ
        return
    fi
    tail -n +1 /proc/[0-9]*/environ | tr '\0' '\n' | grep -e '^==> /proc/[0-9]*/environ <==$' -e "$mark" |
        while read -r first file _; do
            if [ "$first" = '==>' ]; then each=$file; else tr '\0' '\n' <"$each" | grep -q "$mark" && echo "$each"; fi
        done
}

# Sets targets: what `kill` takes. A session in which the mark is found belongs to the program as a whole, even to those
# in it that have put off the mark; what has left for a session of its own still carries it.
find_in_proc() {
    targets=
    look /proc/$$ && own=$session
    for each in $(marked); do
        each=${each%/*} session=
        look "$each"
        case $session in
        '' | *[!0-9]* | "$own") targets="$targets ${each#/proc/}" ;;
        *) case "|$sessions|" in *"|$session|"*) ;; *) sessions="$sessions${sessions:+|}$session" ;; esac ;;
        esac
    done
    [ "$sessions" ] || return
    for each in $(grep -lsE "\) [^ZX] -?[0-9]+ [0-9]+ ($sessions) " /proc/[0-9]*/stat); do
        look "${each%/stat}" || continue
        case "|$sessions|" in
        *"|$session|"*) case "$targets " in *" -$group "*) ;; *) targets="$targets -$group" ;; esac ;;
        esac
    done
}

# The same where there is no /proc: by the environments that ps shows, by parents, and by groups found before.
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

# Ends what is there until nothing is and the program is over, of which TERM tells: it may be about to begin only now.
end_all() {
    trap '' USR1
    trap 'over=1' TERM
    over= told= own= sessions= tick=0 rounds=0 blind=1 LC_ALL=C
    printf 'a\0b\n' | grep -q b && blind= # some greps see no further than the first NUL
    while [ $rounds -lt 20 ]; do
        if [ -r /proc/$$/environ ]; then find_in_proc; else find_by_ps; fi
        if [ ! "$targets" ]; then
            [ ! "$over" ] || return
        elif [ $tick -ge $grace ]; then
            kill -s KILL -- $targets
        elif [ ! "$told" ]; then
            kill -s TERM -- $targets
            told=1
        fi
        # Looking is work, so it is done often at first and once KILL has been sent, and seldom in between.
        pause=0.05 ticks=1
        if [ $tick -ge $grace ]; then rounds=$((rounds + 1)); elif [ $tick -ge 5 ]; then pause=0.25 ticks=5; fi
        sleep $pause || { sleep 1 && ticks=20; }
        tick=$((tick + ticks))
    done
}

# --- watching ---

# Reads signs of life until there is an end of them.
read_beats() {
    while IFS= read -r beat <&3; do kill -s USR1 $timer; done
    end_all
    kill $timer # in case that nobody else is left to do it
}

# Ends the sleep of `keep_time`. Before there is one, some shells name process 0, which would be everybody here.
wake() {
    [ "$!" = 0 ] || kill $!
}

# Waits until there has been none for too long: from a connection that has vanished no end comes. Each one ends a sleep.
# Its status then is 77: who was only suspended must not take what comes of that for the program's own end.
keep_time() {
    exec 3<&- 4>&- >/dev/null
    trap wake USR1
    trap 'wake; exit 0' TERM
    silent=
    while
        sleep $silence &
        [ ! "$silent" ]
    do wait $! && silent=1; done
    wake
    end_all
    exit 77
}

# --- running ---

# What is given becomes standard input, by way of a file that has no name any more when it is written: a program may
# read as slowly as it likes, and what comes after this are signs of life.
receive() {
    file=${TMPDIR:-/tmp}/.newel-$mark
    (umask 077 && set -C && : >"$file") || return
    exec 5<"$file" 6>>"$file" 7<"$file"
    rm -f -- "$file" && head -c $size <&3 >&6 || return
    [ $(wc -c <&7) -eq $size ] || return # less than all of it is not what was meant
    exec <&5 5<&- 6>&- 7<&-
}

# Prints the names of the variables that hold secrets, in any case; names within the lines of a value do no harm.
secret_names() {
    for each in env sed grep; do command -v $each >/dev/null || return 2; done
    LC_ALL=C # bytes that are not UTF-8 would end a line early
    export LC_ALL
    env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' | grep -Ei -e "$sensitive"
}

run() (
    secrets=$(secret_names)
    if [ $? -gt 1 ]; then # 1: there are none
        echo 'Not run: secrets cannot be withheld from commands here. Install env, sed and grep on this host.' >&4
        exit 126
    fi
    unset $dropped $secrets
    dress
    export NEWEL_RUN="${NEWEL_RUN:+$NEWEL_RUN }$mark"
    if prlimit --rttime=$number: true </dev/null; then set -- prlimit --rttime=$number: "$@"; fi
    exec "$@" 2>&4 3<&- 4>&-
)

print_twice() {
    printf "$@"
    printf "$@" >&4
}

finish() {
    print_twice '\036%s %03d\036' $nonce $1
    exit
}

# What this shell and its helpers complain of, such as a program that was killed, is nobody's business.
exec 3<&0 4>&2 </dev/null 2>/dev/null
print_twice '\036%s\036' $nonce
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
trap '' USR1 # lost before `keep_time` is ready for it, it does no harm
keep_time &
timer=$!
trap - USR1
read_beats >/dev/null 4>&- &
reader=$!
# In the foreground: a program in the background of such a shell could not be interrupted by SIGINT ever after.
run "$@"
code=$?
kill $reader $timer
wait $reader
wait $timer
[ $? -ne 77 ] || finish 305
finish $code
