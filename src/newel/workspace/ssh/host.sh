# The host's side of a connection. sh evaluates this text once, in the C locale; requests follow on its standard input.
# Needs sh, head and cat, and for files ls, cp, mv, ln, rm, mkdir, chmod, find, readlink, stat and one program for SHA-256.
# Names start with newel_, so that they hide no others. A function in () has its own variables, working directory and traps.
# The error message of a failed function ends with the system's reason.
#
# Statuses besides 0 (done) and 1 (failed, with the reason):
#   10 a directory                  13 not the expected state; prints the actual one
#   11 not a regular file           14 permission denied
#   12 a link is in the path        15 not all of the input was read: this shell is out of step
unset CDPATH GLOBIGNORE
IFS=' 	
'
n='
'
exec 2>/dev/null

newel_why() { # path: prints the system's reason why it cannot be accessed
  ls -- "$1" 2>&1 >/dev/null
}

newel_link() { # paths, each a prefix of the next: prints the number of the first link, and its target
  newel_i=0
  for newel_f; do
    newel_i=$((newel_i + 1))
    if [ -L "$newel_f" ]; then
      printf '%d/' "$newel_i"
      readlink -- "$newel_f"
      return
    fi
  done
}

newel_list() { # folder, limit, nofollow or empty: prints kind/name/ of each entry; kind is d, f or o, with an l before it for a link (then of its target)
  if ! cd ${3:+-P} -- "$1" || ! [ -r . ]; then
    cd /
    newel_why "$1/."
    return 1
  fi
  if [ -n "$3" ] && [ "$PWD" != "$1" ]; then
    cd /
    return 12
  fi
  newel_i=0 newel_o=
  for newel_f in * .[!.]* ..?*; do
    if [ -d "$newel_f" ]; then
      newel_k=d
    elif [ -f "$newel_f" ]; then
      newel_k=f
    elif [ -e "$newel_f" ] || [ -L "$newel_f" ]; then
      newel_k=o
    else
      continue # a pattern without a match
    fi
    [ -L "$newel_f" ] && newel_k=l$newel_k
    newel_o="$newel_o$newel_k/$newel_f/"
    newel_i=$((newel_i + 1))
    case $newel_i in *00)
      printf %s "$newel_o"
      newel_o=
      ;;
    esac
    [ "$newel_i" -lt "$2" ] || break
  done
  cd /
  printf %s "$newel_o"
}

newel_readable() { # path: fails if it is no file that can be read
  if ! [ -f "$1" ]; then
    [ -d "$1" ] && return 10
    [ -e "$1" ] && return 11
    newel_why "$1"
    return 1
  fi
  [ -r "$1" ] || return 14
}

newel_read() { # path, first byte (from 1), limit or - for all
  newel_readable "$1" && newel_part "$2" "$3" <"$1"
}

newel_part() { # first byte, limit or -: prints a part of the input
  case $1,$2 in
    1,-) cat 2>&1 ;;
    1,*) head -c "$2" 2>&1 ;;
    *,-) tail -c "+$1" 2>&1 ;;
    *) tail -c "+$1" | head -c "$2" ;;
  esac
}

newel_read_there() ( # name, first byte, limit or -, folder, its parts: as newel_read, but fails if a link is in the path
  name=$1 first=$2 most=$3 resolved=1 make=
  shift 3
  newel_enter "$@" || exit
  [ -L "./$name" ] && exit 12
  newel_readable "./$name" || exit
  exec <"./$name"
  newel_is_input "$name" || exit 12
  newel_part "$first" "$most"
)

newel_is_input() { # name: whether the input is the file of that name here. There may have been a link for a moment; Linux shows it
  ! [ -e /proc/self/fd/0 ] || [ "$(readlink -n /proc/self/fd/0 && echo .)" = "${PWD%/}/$1." ]
}

newel_take() { # count: prints that many bytes of the input
  [ "$1" = 0 ] || head -c "$1"
}

newel_sweep() { # removes temporary files of this user's killed processes: those without a write for ten minutes
  # There is no way to tell a killed process from a slow one; the write of a slow one then fails cleanly.
  newel_x='[0-9a-f][0-9a-f][0-9a-f][0-9a-f]'
  for newel_f in .newel-$newel_x$newel_x$newel_x$newel_x.tmp; do
    [ -f "$newel_f" ] && find "./$newel_f" -prune -type f -user "$(id -u)" -mmin +10 -exec rm -f -- {} \;
  done
  return 0
}

newel_enter() { # folder, its parts: enters it. $resolved: fails if a link is in the path; $make: creates missing folders
  newel_d=$1
  shift
  if ! cd -P -- "$newel_d"; then
    cd / || return 1
    newel_p=
    for newel_f; do
      newel_p=$newel_p/$newel_f
      [ -z "$resolved" ] || ! [ -L "./$newel_f" ] || return 12
      [ -z "$make" ] || [ -d "./$newel_f" ] || mkdir -- "./$newel_f" 2>&1 || [ -d "./$newel_f" ] || return 1
      if ! cd -P -- "./$newel_f"; then
        newel_why "./$newel_f/."
        return 1
      fi
      [ -z "$resolved" ] || [ "$PWD" = "$newel_p" ] || return 12
    done
  fi
  [ -z "$resolved" ] || [ "$PWD" = "$newel_d" ] || return 12
}

newel_may_write() { # name: succeeds for a writable regular file, or if nothing exists
  [ -z "$resolved" ] || ! [ -L "$1" ] || return 12
  if [ -e "$1" ]; then
    [ -d "$1" ] && return 10
    [ -f "$1" ] || return 11
    [ -w "$1" ] || return 14
  fi
}

newel_is() { # SHA-256 or absent, name: checks the state; prints the actual one if it differs
  newel_s=absent
  if [ -e "$2" ] || [ -L "$2" ]; then
    newel_s=$(newel_sums "$2")
    newel_s=${newel_s#\\}
    newel_s=${newel_s%%[!0-9a-f]*}
  fi
  [ "$newel_s" = "$1" ] && return
  printf %s "$newel_s"
  return 13
}

newel_are() { # SHA-256, temporary file, SHA-256, name: checks both in one process, the target last
  case $3 in any | absent) return 1 ;; esac
  newel_o=$(newel_sums "$2" "$4")
  case $newel_o in *"$n"*) ;; *) return 1 ;; esac
  case $newel_o in "$1"[!0-9a-f]*) ;; *) return 1 ;; esac
  newel_o=${newel_o#*"$n"}
  case ${newel_o#\\}. in "$3"[!0-9a-f]*) ;; *) return 1 ;; esac
}

newel_write() ( # name, temporary name, bytes of input, their SHA-256, expected SHA-256, mode or -, folder, parts
  f=./$1 t=./$2 size=$3 sum=$4 expect=$5 mode=$6
  shift 6
  resolved= make=
  [ "$expect" = any ] || resolved=1
  case $expect in any | absent) make=1 ;; esac
  begin() {
    newel_enter "$@" && newel_sweep && newel_may_write "$f" || return
    set -C
    if [ -f "$f" ]; then
      umask 077
      { true >"$t"; } 2>&1 || return 1
      # With the current time, or newel_sweep would take it for a stale file.
      cp --attributes-only --preserve=all --no-preserve=timestamps -- "$f" "$t" || cp -p -- "$f" "$t" 2>&1 || return 1
    else
      { true >"$t"; } 2>&1 || return 1
    fi
    set +C
  }
  trap 'rm -f -- "$t"' 0
  trap 'exit 1' 1 2 13 15
  begin "$@"
  status=$?
  if [ $status -ne 0 ]; then
    newel_take "$size" >/dev/null
    exit $status
  fi
  newel_fill "$size" "$t" || exit 15
  if [ "$mode" != - ]; then
    chmod -- "$mode" "$t" 2>&1 || exit 1
  elif [ -u "$t" ] || [ -g "$t" ]; then
    chmod -- u-s,g-s "$t" 2>&1 || exit 1
  fi
  if ! newel_are "$sum" "$t" "$expect" "$f"; then
    newel_is "$sum" "$t" >/dev/null || exit 15
    [ "$expect" = any ] || newel_is "$expect" "$f" || exit
  fi
  if [ "$expect" = absent ]; then
    if ln -- "$t" "$f"; then
      newel_sync .
      exit 0
    fi
    [ -e "$f" ] || [ -L "$f" ] && exit 13
  fi
  mv -f -- "$t" "$f" 2>&1 || exit 1
  trap - 0
  newel_sync .
)

newel_remove() ( # name, expected SHA-256, folder, parts
  f=./$1 expect=$2 resolved=1 make=
  shift 2
  newel_enter "$@" && newel_sweep && newel_may_write "$f" || exit
  [ "$expect" = any ] || newel_is "$expect" "$f" || exit
  if ! [ -e "$f" ]; then
    newel_why "$f"
    exit 1
  fi
  rm -f -- "$f" 2>&1 || exit 1
  newel_sync .
)

newel_remove_folder() ( # ./name, its folder
  cd -P -- "$2" && [ "$PWD" = "$2" ] && ! [ -L "$1" ] && rmdir -- "$1"
)

newel_thing() ( # name, folder, parts: prints the mode in hexadecimal, and a link's target; nothing if it does not exist
  f=./$1 resolved=1 make=
  shift
  newel_enter "$@" || exit
  [ -e "$f" ] || [ -L "$f" ] || exit 0
  newel_mode "$f" || exit 1
  if [ -L "$f" ]; then readlink -n -- "$f"; fi
)

newel_become() ( # name, expected mode (hexadecimal, - for absent) and target, new mode and target, permission bits, folder, parts
  f=./$1 was=$2 led=$3 mode=$4 to=$5 bits=$6 resolved=1 make= now=- leads=
  [ "$was" != - ] || make=1
  shift 6
  newel_enter "$@" || exit
  if [ -e "$f" ] || [ -L "$f" ]; then
    now=$(newel_mode "$f")
    if [ -L "$f" ]; then
      now=a000 leads=$(readlink -n -- "$f" && echo .)
      leads=${leads%.}
    fi
  fi
  [ "$now" = "$was" ] && [ "$leads" = "$led" ] || exit 13
  case $was,$mode in 4???,4??? | 1???,1??? | 8???,8???)
    chmod -- "$bits" "$f" 2>&1 || exit 1
    newel_sync .
    exit 0
    ;;
  esac
  case $was,$mode in 8???,* | *,8???) exit 11 ;; esac # regular files: see newel_write and newel_remove, which compare contents
  case $was in
    -) ;;
    4???) rmdir -- "$f" 2>&1 || exit 1 ;;
    *) rm -f -- "$f" 2>&1 || exit 1 ;;
  esac
  case $mode in
    -) ;;
    a000) ln -s -- "$to" "$f" 2>&1 || exit 1 ;;
    4???) { mkdir -- "$f" && chmod -- "$bits" "$f"; } 2>&1 || exit 1 ;;
    *) { mkfifo -- "$f" && chmod -- "$bits" "$f"; } 2>&1 || exit 1 ;;
  esac
  newel_sync .
)

if command -v sha256sum >/dev/null; then
  newel_sums() { sha256sum -- "$@"; }
elif command -v shasum >/dev/null; then
  newel_sums() { shasum -a 256 -- "$@"; }
elif command -v sha256 >/dev/null; then
  newel_sums() { sha256 -q -- "$@"; }
elif command -v openssl >/dev/null; then
  newel_sums() { openssl dgst -sha256 -r "$@"; }
fi

newel_has_stat=1
if stat -c %s / >/dev/null; then
  newel_stat() { stat -L -c '%f %s %Y %y' -- "$@" 2>&1; } # GNU, busybox
  newel_mode() { stat -c %f -- "$1" 2>&1; }
elif stat -f %z / >/dev/null; then
  newel_stat() { stat -L -f '%Xp %z %m %Fm' -- "$@" 2>&1; } # BSD, macOS
  newel_mode() { stat -f %xp -- "$1" 2>&1; }
else
  newel_has_stat=
fi

newel_stats() { # paths: prints a row of 0 and 1 for those that exist, then a line of newel_stat for each of these
  for newel_f; do
    shift
    if [ -e "$newel_f" ]; then
      printf 1
      set -- "$@" "$newel_f"
    else
      printf 0
    fi
  done
  printf '\n'
  [ $# -eq 0 ] || newel_stat "$@"
}

newel_fill() { # bytes of input, file: writes them, and flushes the file if possible
  { newel_take "$1" >"$2"; } 2>&1
}
newel_sync() { :; } # folder: makes its entries durable, if possible
newel_system=$(uname -s)
if [ "$newel_system" = Linux ]; then
  case $(sync --version) in *coreutils*) # other implementations flush all file systems
    newel_fill() {
      dd bs=65536 count="$1" iflag=fullblock,count_bytes of="$2" conv=notrunc,nocreat,fsync status=none 2>&1
    }
    newel_sync() { sync -- "$1"; }
    ;;
  esac
fi

newel_facts() { # path: prints facts about the host and the path
  cd -P -- "${HOME:-/}" || cd /
  printf 'system=%s\0user=%s\0home=%s\0' "$newel_system" "$(id -un)" "$PWD"
  if cd -P -- "$1"; then
    printf 'root=%s\0' "$PWD"
  else
    printf 'problem=%s\0' "$(newel_why "$1/.")"
  fi
  cd /
  printf 'bash=%s\0rg=%s\0git=%s\0setsid=%s\0' "$(command -v bash)" "$(command -v rg)" "$(command -v git)" "$(command -v setsid)"
  for newel_f in head tail cat ls cp mv ln rm mkdir chmod find readlink; do
    command -v "$newel_f" >/dev/null || printf 'missing=%s\0' "$newel_f"
  done
  [ -n "$newel_has_stat" ] || printf 'missing=stat\0'
  command -v newel_sums >/dev/null || printf 'missing=sha256sum\0'
  printf 'clock=%s\0' "$(date +%s)"
}

# --- for a sandbox, on Linux; see sandbox/host_sandbox.py ---

newel_sandbox_facts() { # where programs are
  printf 'machine=%s\0bubblewrap=%s\0' "$(uname -m)" "$(PATH=$1 && command -v bwrap)"
  printf 'namespaces=%s\0' "$(for newel_f in user mnt pid ipc net; do readlink "/proc/self/ns/$newel_f"; done)"
  printf 'server=%s\0PATH=%s\0VIRTUAL_ENV=%s\0CONDA_PREFIX=%s\0' "$SSH_CONNECTION" "$PATH" "$VIRTUAL_ENV" "$CONDA_PREFIX"
}

newel_places() { # paths: prints the kind (as newel_list, for a link its target's), the path and the real path of each that exists
  for newel_f; do
    if [ -d "$newel_f" ]; then
      newel_k=d
    elif [ -f "$newel_f" ]; then
      newel_k=f
    elif [ -e "$newel_f" ] || [ -L "$newel_f" ]; then
      newel_k=o
    else
      continue # also a pattern without a match
    fi
    newel_r=$(readlink -f -- "$newel_f" && echo .)
    printf '%s\0%s\0%s\0' "$newel_k" "$newel_f" "${newel_r%"$n".}"
  done
  return 0
}

newel_identities() { # paths: prints device and inode of each, with an l before those of a link, or none
  for newel_f; do
    if [ -L "$newel_f" ]; then printf l; fi
    if [ -e "$newel_f" ] || [ -L "$newel_f" ]; then stat -c '%d:%i' -- "$newel_f"; else echo none; fi
  done
  return 0
}

newel_serve() { # secret. Request: a line with the secret and a key, and + if input follows; a line of sh text; the input. The answer ends with the key and status
  newel_secret=$1
  while IFS= read -r newel_key; do
    case $newel_key in "$newel_secret"*) ;; *) return ;; esac # what a request has left of its input is not evaluated
    IFS= read -r newel_line || return
    newel_key=${newel_key#"$newel_secret"}
    case $newel_key in
      *+)
        eval "$newel_line"
        newel_s=$?
        printf '\n%s %d\n' "${newel_key%+}" $newel_s
        [ $newel_s -ne 15 ] || exec cat >/dev/null # it is not used again, but may carry the connection
        ;;
      *)
        eval "$newel_line" </dev/null
        printf '\n%s %d\n' "$newel_key" "$?"
        ;;
    esac
  done
}
