#!/usr/bin/env bash
# Builds the three tokenizer corpora (English, code, Chinese; 64 MiB each) from the contents of Debian packages.
#   bench/make_corpora.sh OUTPUT_FOLDER [MIB]
# Packages are downloaded by name and unpacked below OUTPUT_FOLDER; nothing is installed.  What each corpus is made of,
# and how often its text had to be repeated to reach the size, is written to OUTPUT_FOLDER/corpora.txt.
set -euo pipefail

if [[ $# -lt 1 ]]; then
  echo "usage: $0 OUTPUT_FOLDER [MIB]" >&2
  exit 2
fi
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$1"
out="$(cd "$1" && pwd)"
mib="${2:-64}"

english=(dict-gcide dict-foldoc dict-jargon libreoffice-help-en-us linux-doc-6.1)
code=(linux-source-6.1 libpython3.11-stdlib libboost1.74-dev)
chinese=(manpages-zh fortunes-zh debian-handbook debian-reference-zh-cn debian-reference-zh-tw debian-faq-zh-cn
  debian-edu-doc-zh-cn maint-guide-zh-cn maint-guide-zh-tw linuxcnc-doc-zh-cn kicad-doc-zh gimp-help-zh-cn
  lilypond-doc-html-zh installation-guide-amd64 libreoffice-help-zh-cn libreoffice-help-zh-tw libreoffice-l10n-zh-cn
  libreoffice-l10n-zh-tw)

unpack() {  # unpack FOLDER PACKAGE...
  local folder="$out/unpacked/$1" package
  shift
  mkdir -p "$folder" "$out/debs"
  for package in "$@"; do
    [[ -e "$folder/.$package" ]] && continue
    rm -f "$out/debs/${package}_"*.deb
    if ! (cd "$out/debs" && apt-get -o APT::Sandbox::User=root download -q "$package" >/dev/null); then
      echo "make_corpora: package $package is not available, left out" >&2
      continue
    fi
    dpkg-deb -x "$out/debs/${package}_"*.deb "$folder"
    touch "$folder/.$package"
  done
}

unpack english "${english[@]}"
unpack code "${code[@]}"
unpack chinese "${chinese[@]}"
for archive in "$out"/unpacked/code/usr/src/linux-source-*.tar.xz; do
  [[ -e "$archive" ]] && tar -C "$out/unpacked/code" -xf "$archive" --wildcards '*.c' '*.h' && rm "$archive"
done

: >"$out/corpora.txt"
for corpus in english code chinese; do
  python3 "$here/corpus_text.py" "$corpus" "$out/unpacked/$corpus" "$out/$corpus.txt" "$mib" | tee -a "$out/corpora.txt"
done
