#!/usr/bin/env bash
# Set up everything the course needs, on a bare Debian or Ubuntu: system packages by apt when
# root (or sudo without a password) is at hand, the rest in .venv. A second run takes a moment.
# `setup.sh learner` leaves out what only tests need; what is there already stays.
set -euo pipefail
cd "$(dirname "$0")/.."
whom=${1:-all}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# The tests start a PostgreSQL of their own: Debian need start none when it installs the package.
no_cluster() {
    [ ! -e /etc/postgresql-common/createcluster.conf ] || return 0
    as_root mkdir -p /etc/postgresql-common
    echo "create_main_cluster = false" |
        as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
}

# package, the file that shows it is there, what does not work without it
needs=(
    "bubblewrap|bwrap|submissions cannot be graded in a sandbox"
)
[ "$whom" = learner ] || needs+=(
    "chromium-headless-shell|chromium-headless-shell|the browser tests need chromium, and take longer"
    "iproute2|ip|ranks on two hosts cannot be tested"
    "postgresql|pg_ctlcluster|the course server cannot be tested on PostgreSQL"
)

# A Python that was built without --enable-optimizations, as pyenv does unless told, takes a sixth
# longer for whatever is Python: the system's takes its place where it is the same version.
choose_python() {
    local is_plain='import sys, sysconfig
sys.exit("--enable-optimizations" in sysconfig.get_config_var("CONFIG_ARGS"))'
    local version='import ensurepip, sys, venv; print(sys.version_info[:2])'
    local system=${SYSTEM_PYTHON:-/usr/bin/python3} own
    if [ -n "${PYTHON:-}" ]; then
        echo "$PYTHON"
    elif python3 -c "$is_plain" && own=$(python3 -c "$version") &&
        [ "$own" = "$("$system" -c "$version")" ]; then
        echo "$system"
    else
        echo python3
    fi 2>/dev/null
}

python=$(choose_python)
command -v "$python" >/dev/null || python=
missing=()
if [ -z "$python" ]; then
    missing+=(python3 python3-venv)
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    missing+=(python3-venv)
fi
for need in "${needs[@]}"; do
    IFS='|' read -r package command _ <<<"$need"
    command -v "$command" >/dev/null || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
    if command -v apt-get >/dev/null && can_be_root; then
        case " ${missing[*]} " in *" chromium-headless-shell "*) missing+=(fonts-dejavu-core) ;; esac
        case " ${missing[*]} " in *" postgresql "*) no_cluster ;; esac
        echo "setup: installing ${missing[*]}"
        log=$(mktemp)
        # a list that cannot be renewed is no reason to stop: the old one may do
        as_root apt-get update >"$log" 2>&1 || true
        for package in "${missing[@]}"; do # not all at once: one that apt lacks would stop the rest
            as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y --no-install-recommends "$package" >"$log" 2>&1 ||
                tail -n 5 "$log" >&2
        done
        rm -f "$log"
    fi
    for need in "${needs[@]}"; do
        IFS='|' read -r package command without <<<"$need"
        command -v "$command" >/dev/null ||
            echo "setup: $package is missing: without it $without. Next: sudo apt-get install $package" >&2
    done
fi

python=$(choose_python)
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup: Python 3.11 or newer is needed, got $("$python" --version 2>&1 || echo none). Next: install it, then make PYTHON=python3.11 start" >&2
    exit 1
fi

# The stamp holds what the environment was made from; nothing is done while that is unchanged.
# Another Python, or another index of PyTorch builds, makes it anew.
venv=${VENV:-.venv}
stamp=$venv/made-from
version="$("$python" -VV)"
made_from="$version
$(pwd; cat pyproject.toml)"
of_torch=$venv/torch-index
other_torch=
if [ -n "${TORCH_INDEX+set}" ] && [ "$(cat "$of_torch" 2>/dev/null || echo unset)" != "$TORCH_INDEX" ]; then
    other_torch=yes
fi
made=$(cat "$stamp" 2>/dev/null || true)
if [ -n "$other_torch" ] || { [ "$made" != "$made_from
all" ] && [ "$made" != "$made_from
$whom" ]; }; then
    echo "setup: making $venv with $("$python" -V) (a few minutes the first time)"
    if [ "$("$venv/bin/python" -VV 2>/dev/null)" != "$version" ]; then
        rm -rf "$venv"
        "$python" -m venv "$venv" || {
            echo "setup: python3-venv is missing, and nothing works without it. Next: sudo apt-get install python3-venv" >&2
            exit 1
        }
    fi
    rm -f "$stamp"
    "$venv/bin/python" scripts/install.py "$whom"
    if [ -n "${TORCH_INDEX+set}" ]; then printf '%s\n' "$TORCH_INDEX" >"$of_torch"; fi
    printf '%s\n%s\n' "$made_from" "$whom" >"$stamp"
fi
