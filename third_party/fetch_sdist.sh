#!/usr/bin/env bash
# fetch_sdist.sh REQUIREMENTS FOLDER: gets the source distribution that REQUIREMENTS pins (one line, with its SHA-256)
# into FOLDER with pip, unless it is there already with the right hash.  Run by setup.sh, and by CMake where it is missing.
set -euo pipefail
requirements=$1
folder=$2
read -r package hash < <(sed -n 's/^\([a-z-]*==[0-9.]*\) --hash=sha256:\([0-9a-f]*\)$/\1 \2/p' "$requirements")
name=${package%%==*}
archive="$folder/${name//-/_}-${package##*==}.tar.gz"  # as source distributions are named

matches() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$hash" ]; }

matches "$archive" && exit 0
echo "fetching ${package/==/ }" >&2
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Debian's Python may not install packages system-wide, and its pip may be absent: a fresh environment has one.
python3 -m venv "$work/venv"
"$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-binary "${package%%==*}" --no-deps --require-hashes \
  --requirement "$requirements" --dest "$work" >&2
matches "$work/${archive##*/}" || { echo "fetch_sdist.sh: ${archive##*/} does not have the pinned SHA-256" >&2; exit 1; }
mv "$work/${archive##*/}" "$archive.part"
mv "$archive.part" "$archive"
