#!/usr/bin/env bash
# Install a real S3 server for the tests (versitygw, over a folder) into .cache/bin, if Go is there to build it.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v1.8.0
target="$PWD/.cache/bin"
if [ -x "$target/versitygw" ]; then exit 0; fi
if ! command -v go >/dev/null; then
  echo "not tested: object stores on a real S3 server need Go 1.24 or newer (apt-get install golang)"
  exit 0
fi
echo "setup: the S3 server versitygw $version"
GOBIN="$target" go install "github.com/versity/versitygw/cmd/versitygw@$version"
