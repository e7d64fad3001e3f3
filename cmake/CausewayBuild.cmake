# How every target of the project is compiled: language, warnings, floating point, sanitizers, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(CAUSEWAY_CCACHE ccache)
if(CAUSEWAY_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CAUSEWAY_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CAUSEWAY_CCACHE})
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Assertions stay on in every build: a daemon that finds its own bug must not go on. -g1 keeps links short.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2")
endif()

# Usage requirements of our own code. Generated code links causeway_plain and is spared the warnings.
add_library(causeway_plain INTERFACE)
target_include_directories(causeway_plain INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
# Contraction would change results between machines: guarantee 1 forbids it everywhere.
target_compile_options(causeway_plain INTERFACE -ffp-contract=off)
if(CAUSEWAY_SANITIZER)
  target_compile_options(causeway_plain INTERFACE -fsanitize=${CAUSEWAY_SANITIZER} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(causeway_plain INTERFACE -fsanitize=${CAUSEWAY_SANITIZER})
endif()
if(CAUSEWAY_FUZZ)
  target_compile_options(causeway_plain INTERFACE -fsanitize=fuzzer-no-link)
endif()

add_library(causeway_options INTERFACE)
target_link_libraries(causeway_options INTERFACE causeway_plain)
target_compile_options(causeway_options INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers
                       $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>)

# Command-line parsing and test code are heavy to optimise and quick to run: test builds skip it there.
function(causeway_unoptimised)
  if(CAUSEWAY_TESTS)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -O0)
    endforeach()
  endif()
endfunction()

# causeway_library(NAME SOURCES ... DEPENDS ...): a folder's static library.
function(causeway_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE causeway_options)
  target_link_libraries(${name} PUBLIC causeway_plain)
endfunction()

# causeway_test(NAME TIER unit|sim|integration|wan SOURCES ... DEPENDS ...): a Catch2 program, one ctest entry.
function(causeway_test name)
  cmake_parse_arguments(ARG "" "TIER;TIMEOUT" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} causeway_catch_main causeway_options)
  if(NOT ARG_TIER STREQUAL "sim")
    causeway_unoptimised(${name})
  endif()
  add_test(NAME ${ARG_TIER}.${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${ARG_TIER}.${name} PROPERTIES LABELS ${ARG_TIER} TIMEOUT ${ARG_TIMEOUT})
endfunction()
