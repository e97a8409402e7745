#!/usr/bin/env bash
# A sample of the tests on the other Pythons that are installed, and on the oldest one with the
# oldest packages that pyproject.toml allows; each in an environment of its own in build/, without
# PyTorch: a third of the files that do not import it, what Pythons differ in, and both servers.
set -euo pipefail
cd "$(dirname "$0")/.."

found() { # the command that runs this Python: a name on PATH may be a shim that runs nothing
    for python in "python$1" "$HOME/.pyenv/versions/$1".*/bin/python /usr/bin/python"$1"; do
        if "$python" -c '' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
}

mapfile -t sample < <(
    grep -LE '(import|from) torch|torch_arrays' \
        tests/minitorch/graph/test_*.py tests/minitorch/compile/test_*.py \
        tests/ddp_lab/test_{collectives_against_numpy,communicator,record_and_trace,shared_memory}.py \
        tests/autograder/test_{comparing,lab_source,release,reports,similarity,trivial,wire}.py |
        awk 'NR % 3 == 1'
    # the instructions of code, its scopes, what is left open, and what an old package warns of
    ls tests/minitorch/test_{code_names,show_scenes}.py tests/minitorch/graph/test_{jit_state,sizes}.py \
        tests/ddp_lab/test_disagreement.py \
        tests/autograder/test_{intake,slicing}.py
    ls tests/minitorch/test_serve_processes.py tests/minitorch/serve/test_generation_processes.py \
        tests/autograder/service/test_service_{database,http,migrations,operations,requests}.py
)
mapfile -t sample < <(printf '%s\n' "${sample[@]}" | sort -u)

run_sample() { # version, name of the environment
    local python
    python=$(found "$1")
    if [ -z "$python" ]; then
        echo "test-pythons: Python $1 is not installed: nothing ran on it"
        return
    fi
    VENV=build/$2 PYTHON=$python TORCH_INDEX=none scripts/setup.sh
    echo "== $("$python" -V), $2"
    "build/$2/bin/python" -m pytest -q --numprocesses 2 "${sample[@]}"
}

UV_RESOLUTION=lowest-direct run_sample 3.11 oldest
for version in 3.12 3.13 3.14; do
    run_sample "$version" "python$version"
done
