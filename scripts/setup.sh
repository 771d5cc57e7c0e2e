#!/usr/bin/env bash
# Create a virtual environment and install pinned requirements and Floe itself into it.
#   scripts/setup.sh FOLDER REQUIREMENTS…
# Uses uv when it is there, otherwise venv and pip. Does nothing when the folder is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
shift

stamp="$venv/.ready"
wanted=$(cat pyproject.toml "$@" | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

python=""
for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
  if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "missing: Python 3.11 or newer (for example: apt-get install python3.11 python3.11-venv)" >&2
  exit 1
fi

echo "setup: $venv with $("$python" --version) from $*"
files=()
for file in "$@"; do files+=(-r "$file"); done
if command -v uv >/dev/null; then
  [ -x "$venv/bin/python" ] || uv venv --quiet --python "$python" "$venv"
  uv pip install --quiet --python "$venv/bin/python" --require-hashes "${files[@]}"
  uv pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
else
  # an environment that uv made has no pip
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes "${files[@]}"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
fi
echo "$wanted" >"$stamp"
