# deepinfer_library(NAME SOURCES a.cpp ... DEPENDS deepinfer_x ... PRIVATE_DEPENDS ...)
#   The static library of one folder.  DEPENDS are the libraries whose headers its headers include.
function(deepinfer_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE deepinfer_flags ${ARG_PRIVATE_DEPENDS})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  if(DEEPINFER_FUZZERS AND name MATCHES "_(base|tensor|text|grammar|models|serving_http)$")
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)  # what the fuzzers see of the code's branches
  endif()
endfunction()

# Builds the tests labelled `threads`, those that ThreadSanitizer runs.
if(DEEPINFER_TESTS)
  add_custom_target(thread_sanitizer_tests)
endif()

# deepinfer_test_part(NAME SOURCES ... [DEPENDS libraries] [PARTS other test parts])
#   What several test programs share: helpers, or suites of which a program instantiates every one that it links.  It is
#   compiled once; a program that names it in DEPENDS gets its objects (an archive would lose the test cases) and those of
#   its PARTS.
function(deepinfer_test_part name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PARTS" ${ARGN})
  list(TRANSFORM ARG_PARTS APPEND _headers OUTPUT_VARIABLE headers_of_parts)
  add_library(${name}_headers INTERFACE)
  target_include_directories(${name}_headers INTERFACE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name}_headers INTERFACE ${ARG_DEPENDS} ${headers_of_parts})

  add_library(${name}_objects OBJECT EXCLUDE_FROM_ALL ${ARG_SOURCES})
  deepinfer_test_flags(${name}_objects)
  target_link_libraries(${name}_objects PRIVATE ${name}_headers)

  add_library(${name} INTERFACE)
  target_sources(${name} INTERFACE $<TARGET_OBJECTS:${name}_objects>)
  target_link_libraries(${name} INTERFACE ${name}_headers ${ARG_PARTS})
endfunction()

# How tests and their parts are compiled.
function(deepinfer_test_flags name)
  target_link_libraries(${name} PRIVATE deepinfer_flags ${RAPIDCHECK_LIBRARY} GTest::gtest)
  target_compile_definitions(${name} PRIVATE
    DEEPINFER_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    DEEPINFER_TEST_MODEL="${PROJECT_SOURCE_DIR}/models/DeepSeek-V4.1-Tiny")
  if(DEEPINFER_SANITIZE)
    target_compile_definitions(${name} PRIVATE DEEPINFER_SANITIZED_BUILD)
  endif()
endfunction()

# deepinfer_test(NAME SOURCES a_test.cpp ... DEPENDS ... [LABELS long threads] [TIMEOUT seconds])
#   One GoogleTest program, one ctest entry per program (a test case is named by --gtest_filter).
function(deepinfer_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS;ARGS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  deepinfer_test_flags(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if(DEEPINFER_SANITIZE AND "long" IN_LIST ARG_LABELS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)  # nobody waits for these under a sanitizer
  endif()
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(thread_sanitizer_tests ${name})
  endif()
endfunction()
