# Sourced by the other scripts: makes the project's environment, once.
# shellcheck shell=bash
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '%s\n' "$*" >&2; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  say "hermes-pgmemory needs Python 3.11, 3.12 or 3.13; set PYTHON to one."
  return 1
}

# ensure_env GROUP: the package itself, editable, with one dependency group.
# A stamp holds the checksum of pyproject.toml, so a second call costs nothing.
ensure_env() {
  local group=$1 python stamp want
  stamp=$VENV/.stamp-$group
  want=$(cksum < "$ROOT/pyproject.toml")
  [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && return
  python=$(find_python) || return 1
  say "making the environment ($group) ..."
  [ -x "$VENV/bin/python" ] || "$python" -m venv "$VENV" || return 1
  "$VENV/bin/python" -m pip install --quiet --upgrade 'pip>=25.1' || return 1
  (cd "$ROOT" && "$VENV/bin/python" -m pip install --quiet --editable . --group "$group") || return 1
  printf '%s' "$want" > "$stamp"
}

# The reference implementation gets an environment of its own.
ensure_reference() {
  local folder=$ROOT/.venv-reference
  export REFERENCE_PYTHON=$folder/bin/python
  [ -f "$folder/.ready" ] && return
  say "making the reference's environment ..."
  "$(find_python)" -m venv "$folder" || return 1
  "$REFERENCE_PYTHON" -m pip install --quiet 'hermes-memory-pgvector==1.0.0' psutil || return 1
  touch "$folder/.ready"
}
