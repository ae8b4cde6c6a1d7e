# Becomes a command of the user's own in the terminal that ssh opens on a host. POSIX sh, behind secrets.sh.
# Set before this text: root, dropped and sensitive (as for run.sh), and "$@", the program.
cd -P -- "$root" || exit 126
secrets=$(secret_names)
if [ $? -gt 1 ]; then
    echo 'Not run: secrets cannot be withheld from commands here. Install env, sed and grep on this host.' >&2
    exit 126
fi
unset $dropped $secrets
# Not by exec: of a program that a signal ended, ssh would only tell that.
trap : INT QUIT
"$@"
