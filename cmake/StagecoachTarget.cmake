# One static library per folder, with explicit dependencies. `stagecoach_library(worker/model ...)` makes the target
# `stagecoach_worker_model`; its headers are included from the root of the tree ("worker/model/layer.h").
# tests/include_edges_test.py checks that what a folder includes is what it depends on.

function(_stagecoach_target_name folder result)
  string(REPLACE "/" "_" name "${folder}")
  set(${result} "stagecoach_${name}" PARENT_SCOPE)
endfunction()

# stagecoach_library(FOLDER SOURCES a.cc ... [DEPENDS folder-or-target ...])
# A dependency that names a folder of the tree is that folder's library; anything else is a target.
function(stagecoach_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPENDS")
  _stagecoach_target_name(${folder} target)
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  _stagecoach_link(${target} PUBLIC ${ARG_DEPENDS})
  target_link_libraries(${target} PRIVATE stagecoach_warnings)
endfunction()

# stagecoach_test(FOLDER SOURCES a_test.cc ... [DEPENDS ...]): one GoogleTest program for the tests beside a folder's sources.
# Each of its cases is a test of ctest, so that they run in parallel and are reported by name. Under a sanitizer, which makes
# a process dear, a few processes share the cases.
function(stagecoach_test folder)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT;NAME" "SOURCES;DEPENDS")
  if(NOT STAGECOACH_BUILD_TESTS)
    return()
  endif()
  _stagecoach_target_name(${folder} name)
  if(ARG_NAME)
    set(target ${ARG_NAME})
  else()
    set(target ${name}_test)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${target} ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  # Only where it is used: a path in the command line keeps another clone from finding the object in the compiler's cache.
  foreach(source IN LISTS ARG_SOURCES)
    file(STRINGS ${source} uses REGEX "STAGECOACH_SOURCE_DIR" LIMIT_COUNT 1)
    if(uses)
      set_source_files_properties(${source} PROPERTIES
        COMPILE_DEFINITIONS "STAGECOACH_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
    endif()
  endforeach()
  _stagecoach_link(${target} PRIVATE ${ARG_DEPENDS})
  target_link_libraries(${target} PRIVATE stagecoach_warnings GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(STAGECOACH_SANITIZE)
    _stagecoach_add_shards(${target} "${folder}/${target}")
  else()
    gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      TEST_PREFIX "${folder}/" PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  endif()
endfunction()

function(_stagecoach_add_shards target prefix)
  set(num_shards 4)
  math(EXPR last "${num_shards} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME "${prefix}/shard-${shard}" COMMAND ${target} --gtest_brief=1)
    set_tests_properties("${prefix}/shard-${shard}" PROPERTIES TIMEOUT 1200
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${num_shards};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# stagecoach_binary(NAME SOURCES ... DEPENDS ...): an executable in bin/, where the three binaries and the benchmarks are.
function(stagecoach_binary name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPENDS")
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  _stagecoach_link(${name} PRIVATE ${ARG_DEPENDS})
  target_link_libraries(${name} PRIVATE stagecoach_warnings)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

function(_stagecoach_link target visibility)
  foreach(dependency IN LISTS ARGN)
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${dependency})
      _stagecoach_target_name(${dependency} dependency)
    endif()
    target_link_libraries(${target} ${visibility} ${dependency})
  endforeach()
endfunction()
