# What commands on a host must not see. POSIX sh. Set before this is called: sensitive, a regular expression.

# Prints the names of variables with secrets, in upper or lower case. Names within multi-line values do no harm.
secret_names() {
    for each in env sed grep; do command -v $each >/dev/null || return 2; done
    LC_ALL=C # bytes that are not UTF-8 would end a line early
    export LC_ALL
    env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' | grep -Ei -e "$sensitive"
}
