# Tries in a sandbox on a host what is forbidden there, and prints what was possible, a line each; then "tested". POSIX sh.
# Set before this text:
#   unwritable  folders and files, one a line
#   hidden      paths, one a line
#   outside     the namespaces of the host, as `readlink` prints them, in the order below
#   server      address and port of a server that the host itself can reach, or empty
n='
'
IFS=$n
set -f
exec 2>/dev/null
for each in $unwritable; do
    if [ -d "$each" ]; then
        (: >"$each/.newel-test-$$") && rm -f -- "$each/.newel-test-$$" && echo "files can be created in $each"
    elif [ -e "$each" ]; then
        (: >>"$each") && echo "$each can be changed"
    fi
done
for each in $hidden; do
    if [ -e "$each" ] || [ -L "$each" ]; then echo "$each can be seen"; fi
done
inside=$(for each in user mnt pid ipc net; do readlink "/proc/self/ns/$each"; done)
set -- "other users' rights" 'file systems' 'processes' 'shared memory' 'the network'
for each in $outside; do
    case $n$inside$n in *"$n$each$n"*) echo "$1 of the host can be reached" ;; esac
    shift
done
[ $# -eq 0 ] && [ "$inside" ] || echo 'namespaces cannot be told apart'
if [ "$server" ] && command -v bash >/dev/null; then
    bash --norc -c '(exec 3<>"/dev/tcp/$1/$2")' bash "${server% *}" "${server#* }" && echo 'servers of the host can be reached'
fi
set +f
set -- /proc/[0-9]*
[ $# -le 12 ] || echo 'processes of the host can be seen'
while IFS=: read -r name value; do
    case $name in
    CapEff | CapBnd) case $value in *[1-9a-f]*) echo 'rights of root are left' ;; esac ;;
    NoNewPrivs) case $value in *1) privileges=kept ;; esac ;;
    Seccomp) case $value in *2) filtered=1 ;; esac ;;
    esac
done </proc/self/status
[ "$privileges" ] || echo 'programs can gain rights'
[ "$filtered" ] || echo 'system calls are not filtered'
unshare -U true && echo 'user namespaces can be created'
mount -t tmpfs none /tmp && echo 'file systems can be mounted'
echo tested
