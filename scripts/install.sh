#!/usr/bin/env bash
# Install hermes-pgmemory into the Python environment that runs `hermes`, and set it up.
# See --help. Safe to run again: what is installed is brought up to date, what is set up
# is left alone.
set -euo pipefail

PACKAGE=hermes-pgmemory
python='' home='' spec='' do_setup=yes uninstall=no
setup_options=()

say() { printf '%s\n' "$*" >&2; }
die() { say "install.sh: $1"; exit "${2:-1}"; }

usage() {
  cat << 'END'
usage: install.sh [--python PATH] [--home DIR] [--from SPEC] [--no-setup]
                  [--uninstall] [--help] [-- SETUP OPTIONS]

Install hermes-pgmemory into the Python environment that runs `hermes`, and set it up.

  --python PATH   Python of that environment (default: found from `hermes`)
  --home DIR      HERMES_HOME to set up (default: $HERMES_HOME, or ~/.hermes)
  --from SPEC     what to install: a checkout, a wheel, or anything pip takes
                  (default: this checkout, or hermes-pgmemory from PyPI)
  --no-setup      install the package only
  --uninstall     take the plugin out of the host, and the package out of the
                  environment; the data stays
  --help          show this

What follows -- goes to `hermes-pgvector setup`:
  install.sh -- --dsn 'host=db.internal dbname=hermes_memory user=hermes'

Exit status: 0 done; 1 failed, and the last line says why; 2 wrong usage.
END
}

parse_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --python | --home | --from)
        [ $# -gt 1 ] && [ -n "$2" ] || die "$1 needs a value; see --help" 2
        case $1 in
          --python) python=$2 ;;
          --home) home=$2 ;;
          --from) spec=$2 ;;
        esac
        shift
        ;;
      --no-setup) do_setup=no ;;
      --uninstall) uninstall=yes ;;
      -h | --help) usage; exit 0 ;;
      --) shift; setup_options=("$@"); break ;;
      *) die "unknown option $1; see --help" 2 ;;
    esac
    shift
  done
}

# real_path FILE: FILE with its symlinks followed; macOS had no `readlink -f` for long.
real_path() {
  local path=$1 target
  while [ -L "$path" ]; do
    target=$(readlink "$path")
    case $target in
      /*) path=$target ;;
      *) path=$(dirname "$path")/$target ;;
    esac
  done
  printf '%s\n' "$path"
}

# python_of COMMAND: the interpreter that runs COMMAND, from its first lines. These are
# a shebang; pip's and uv's detour by /bin/sh, for long paths; or a small shell script
# that executes the command of an environment.
python_of() {
  local file line word
  file=$(real_path "$1")
  [ -f "$file" ] || return 1
  for word in "$(dirname "$file")/python" "$(dirname "$file")/python3"; do
    if [ -x "$word" ] && [ -f "$(dirname "$file")/../pyvenv.cfg" ]; then
      printf '%s\n' "$word"
      return
    fi
  done
  while IFS= read -r line; do
    line=${line#\#!}
    for word in ${line//[\"\']/ }; do
      case $word in
        /*/python | /*/python[0-9]*) [ -x "$word" ] && printf '%s\n' "$word" && return ;;
        /*/hermes) [ "$word" != "$file" ] && python_of "$word" && return ;;
      esac
    done
  done < <(head -n 20 "$file" | tr -d '\0')
  return 1
}

find_python() {
  local command folder candidate root=${home:-${HERMES_HOME:-${HOME:-}/.hermes}}
  if command=$(command -v hermes) && python_of "$command"; then
    return
  fi
  # Where the host's own installer puts it.
  for folder in "$root" "${HOME:-}/.hermes" /usr/local/lib; do
    for candidate in "$folder"/hermes-agent/{venv,.venv}/bin/python; do
      if [ -x "$candidate" ]; then
        printf '%s\n' "$candidate"
        return
      fi
    done
  done
  return 1
}

check_python() {
  local facts version supported managed hosts
  command -v "$python" > /dev/null || die "there is no Python at $python; change --python"
  # No module of the folder we are run in may be taken for one of Python's: -P sees to
  # that, which is new in 3.11; until it is known, nothing but sys is imported.
  facts=$("$python" -c 'import sys
print("%d.%d" % sys.version_info[:2])
print("yes" if (3, 11) <= sys.version_info[:2] < (3, 14) else "no")' 2> /dev/null) ||
    die "$python does not run; give the Python of the environment that runs hermes with --python"
  { read -r version; read -r supported; } <<< "$facts"
  [ "$supported" = yes ] || die "$python is Python $version; hermes-pgmemory needs 3.11, 3.12 or 3.13"
  facts=$("$python" -P - << 'END' 2> /dev/null
import importlib.util, os, sys, sysconfig
own = sys.prefix != sys.base_prefix
marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
print("yes" if os.path.exists(marker) and not own else "no")
print("yes" if importlib.util.find_spec("hermes_cli") else "no")
END
  ) || die "$python does not run; give the Python of the environment that runs hermes with --python"
  { read -r managed; read -r hosts; } <<< "$facts"
  [ "$managed" = no ] || die "$python belongs to the operating system, which lets nobody install into it (PEP 668); install hermes-agent into a virtual environment and give its Python with --python"
  [ "$hosts" = yes ] || die "hermes-agent is not installed for $python; give the Python of the environment that runs hermes with --python"
}

# Sets `pip`, the command that installs into the environment. Those that uv makes have
# no pip.
find_pip() {
  if "$python" -P -m pip --version > /dev/null 2>&1; then
    pip=("$python" -P -m pip)
  elif command -v uv > /dev/null; then
    pip=(uv pip)
  elif "$python" -P -m ensurepip > /dev/null 2>&1; then
    pip=("$python" -P -m pip)
  else
    die "$python has neither pip nor ensurepip, and there is no uv; install one of them"
  fi
}

# pip_run VERB ARGS: pip or uv; prints nothing unless it fails, then all it said.
pip_run() {
  local verb=$1 said where=()
  shift
  [ "${pip[0]}" != uv ] || where=(--python "$python")
  if [ "$verb" = uninstall ] && [ "${pip[0]}" != uv ]; then where=(--yes); fi
  if ! said=$("${pip[@]}" "$verb" ${where[@]+"${where[@]}"} "$@" 2>&1); then
    say "$said"
    return 1
  fi
}

default_spec() {
  local root
  root=$(cd "$(dirname "${BASH_SOURCE[0]:-.}")/.." && pwd)
  if grep -qs "^name = \"$PACKAGE\"" "$root/pyproject.toml"; then
    printf '%s\n' "$root"
  else
    printf '%s\n' "$PACKAGE"
  fi
}

# ours ARGS: hermes-pgvector, as this environment has it.
ours() { "$python" -P -m hermes_pgmemory "$@" ${home:+--home "$home"}; }

installed() { "$python" -P -c 'import hermes_pgmemory' 2> /dev/null; }

install_package() {
  local again=()
  [ -n "$spec" ] || spec=$(default_spec)
  say "installing $spec for $python ..."
  # Of a repository, pip takes another commit of the same version for the same thing.
  case $spec in
    *git+*) if installed; then again=(--force-reinstall --no-deps); fi ;;
  esac
  pip_run install --upgrade "$spec" || die "$spec cannot be installed; see above"
  [ ${#again[@]} = 0 ] || pip_run install "${again[@]}" "$spec" ||
    die "$spec cannot be installed; see above"
  installed || die "$python cannot import hermes_pgmemory after installing $spec; is it that package?"
}

# in_the_host: whether the plugin is still in the host, which only the package can undo.
in_the_host() {
  local root=${home:-${HERMES_HOME:-${HOME:-}/.hermes}}
  if [ -e "$root/plugins/pgvector" ]; then
    grep -qs '^# Door of hermes-pgmemory ' "$root/plugins/pgvector/__init__.py"
  else
    grep -Eqs "provider:[[:space:]]*[\"']?pgvector([^[:alnum:]_-]|\$)" "$root/config.yaml"
  fi
}

remove() {
  if ! installed; then
    say "hermes-pgmemory is not installed for $python"
    ! in_the_host || die "the plugin is still in the host, and only the package takes it out: run this again with --no-setup, then with --uninstall"
    return
  fi
  # What runs from the package's files must not outlive them.
  ours server stop > /dev/null || say "the embedded server could not be stopped; see above"
  ours uninstall || die "the plugin could not be taken out; see above"
  pip_run uninstall "$PACKAGE" || die "the package could not be removed; see above"
  say "removed $PACKAGE from $python; the data stays"
}

main() {
  parse_options "$@"
  if [ -z "$python" ]; then
    python=$(find_python) || die "there is no hermes command on PATH; give the Python of the environment that runs it with --python"
  fi
  check_python
  find_pip
  if [ "$uninstall" = yes ]; then
    remove
    return
  fi
  install_package
  if [ "$do_setup" = yes ]; then
    ours setup ${setup_options[@]+"${setup_options[@]}"} || die "installed, but not set up; change what is named above and run this again"
  else
    say "installed; now run: $(dirname "$python")/hermes-pgvector setup"
  fi
}

main "$@"
