# Third-party libraries from the distribution's packages (setup.sh names them).  third_party/ has those from elsewhere.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SIMDJSON REQUIRED IMPORTED_TARGET simdjson)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(LMDB REQUIRED IMPORTED_TARGET lmdb)
pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)  # header only
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.74 REQUIRED)  # headers only: Asio and Beast
find_package(OpenSSL 3.0 REQUIRED)
find_package(spdlog REQUIRED)
find_package(tomlplusplus REQUIRED)

if(DEEPINFER_TESTS)
  find_package(GTest REQUIRED)
  # Debian's librapidcheck-dev has no CMake config in every release: header and archive are enough.
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
endif()

# Where fetched source archives are kept between builds.
if(DEFINED ENV{DEEPINFER_DOWNLOADS})
  set(DEEPINFER_DOWNLOADS "$ENV{DEEPINFER_DOWNLOADS}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(DEEPINFER_DOWNLOADS "$ENV{XDG_CACHE_HOME}/deepinfer")
else()
  set(DEEPINFER_DOWNLOADS "$ENV{HOME}/.cache/deepinfer")
endif()
