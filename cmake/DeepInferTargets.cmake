# deepinfer_library(NAME SOURCES a.cpp ... DEPENDS deepinfer_x ... PRIVATE_DEPENDS ...)
#   The static library of one folder.  DEPENDS are the libraries whose headers its headers include.
function(deepinfer_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE deepinfer_flags ${ARG_PRIVATE_DEPENDS})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  if(DEEPINFER_FUZZERS AND NOT name MATCHES "cpu|bench|cli")
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)  # what the fuzzers see of the code's branches
  endif()
endfunction()

# Builds the tests labelled `threads`, those that ThreadSanitizer runs.
if(DEEPINFER_TESTS)
  add_custom_target(thread_sanitizer_tests)
endif()

# deepinfer_test(NAME SOURCES a_test.cpp ... DEPENDS ... [LABELS long threads] [TIMEOUT seconds])
#   One GoogleTest program, one ctest entry per program (a test case is named by --gtest_filter).
function(deepinfer_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS;ARGS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE deepinfer_flags ${ARG_DEPENDS} ${RAPIDCHECK_LIBRARY} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    DEEPINFER_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    DEEPINFER_TEST_MODEL="${PROJECT_SOURCE_DIR}/models/DeepSeek-V4.1-Tiny")
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if(DEEPINFER_SANITIZE)
    target_compile_definitions(${name} PRIVATE DEEPINFER_SANITIZED_BUILD)
  endif()
  if(DEEPINFER_SANITIZE AND "long" IN_LIST ARG_LABELS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)  # nobody waits for these under a sanitizer
  endif()
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(thread_sanitizer_tests ${name})
  endif()
endfunction()
