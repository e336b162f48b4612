# Build options, compiler floor and flags.
option(DEEPINFER_TESTS "Build the tests" ON)
option(DEEPINFER_BENCHMARKS "Build the benchmark programs" OFF)
option(DEEPINFER_FUZZERS "Build the libFuzzer targets (Clang only)" OFF)
option(DEEPINFER_PYTHON "Build the Python package (needs nanobind in the interpreter's environment)" OFF)
option(DEEPINFER_CUDA "Build the CUDA backend (needs nvcc 13; CMAKE_CUDA_ARCHITECTURES names the GPUs)" OFF)
option(DEEPINFER_WERROR "Treat warnings as errors (CI presets)" OFF)
set(DEEPINFER_SANITIZE "" CACHE STRING "Comma-separated sanitizers, e.g. address,undefined")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  message(FATAL_ERROR "DeepInfer supports x86-64 only for now (this machine: ${CMAKE_SYSTEM_PROCESSOR}).")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "GCC 12 or newer is needed (found ${CMAKE_CXX_COMPILER_VERSION}).")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "Clang 14 or newer is needed (found ${CMAKE_CXX_COMPILER_VERSION}).")
endif()

add_library(deepinfer_flags INTERFACE)
# The order and rounding of floating-point operations is part of every contract: a compiler must
# neither contract a*b+c on its own nor reassociate.  Kernels ask for fma where they want it.
target_compile_options(deepinfer_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>
  $<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=554>)  # MatrixView's conversion, which has a constraint that nvcc overlooks
if(DEEPINFER_WERROR)
  target_compile_options(deepinfer_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>)
endif()
target_include_directories(deepinfer_flags INTERFACE "${PROJECT_SOURCE_DIR}/src")

if(DEEPINFER_SANITIZE)
  add_compile_options(-fsanitize=${DEEPINFER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DEEPINFER_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()
