# How a box, the library, the command and the benchmarks are built.
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

find_program(ONCE_CCACHE ccache)
if(ONCE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # With these it also keeps what was compiled with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  ${ONCE_CCACHE})
endif()

# Flags of everything that is compiled here, never of those who use the library.
add_library(once_flags INTERFACE)
target_compile_options(once_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(ONCE_WERROR)
  target_compile_options(once_flags INTERFACE -Werror)
endif()
if(ONCE_SANITIZE)
  target_compile_options(once_flags INTERFACE -fsanitize=${ONCE_SANITIZE} -fno-omit-frame-pointer
                                              -fno-sanitize-recover=all)
  target_link_options(once_flags INTERFACE -fsanitize=${ONCE_SANITIZE})
endif()

set_property(GLOBAL PROPERTY ONCE_BOXES "")
set_property(GLOBAL PROPERTY ONCE_BOX_LIBS "")

# once_unity(TARGET): a few large translation units instead of many small ones. With tests, a source file that a mutant
# of the simulator replaces (tests/simulation) stays a translation unit of its own. ONCE_MUTABLE asks for the same.
function(once_unity target)
  if(ONCE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()

# Two formats with the same names for their fields.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/codec/past_codec.cpp ${PROJECT_SOURCE_DIR}/src/codec/record_codec.cpp
                            PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
if(ONCE_UNITY AND (ONCE_BUILD_TESTS OR ONCE_MUTABLE))
  file(GLOB once_mutants CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/simulation/mutants/*.mutant)
  foreach(mutant IN LISTS once_mutants)
    file(STRINGS ${mutant} source REGEX "^source: ")
    string(REPLACE "source: " "" source "${source}")
    set_source_files_properties(${PROJECT_SOURCE_DIR}/${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endif()

# once_box(NAME GLOB... [LIBS LIB...]): the sources of one box as the OBJECT library once_NAME.
function(once_box name)
  cmake_parse_arguments(PARSE_ARGV 1 box "" "" LIBS)
  list(TRANSFORM box_UNPARSED_ARGUMENTS PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE globs)
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  add_library(once_${name} OBJECT ${sources})
  target_include_directories(once_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                 ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(once_${name} PRIVATE once_flags PUBLIC ${box_LIBS} Threads::Threads)
  once_unity(once_${name})
  set_property(GLOBAL APPEND PROPERTY ONCE_BOXES once_${name})
  set_property(GLOBAL APPEND PROPERTY ONCE_BOX_LIBS ${box_LIBS})
endfunction()

# once_library(NAME): all boxes as one library. A shared one shows the namespace once::v1 and nothing
# else: the linker script says so, and the headers stay free of export macros.
function(once_library name)
  get_property(boxes GLOBAL PROPERTY ONCE_BOXES)
  get_property(libs GLOBAL PROPERTY ONCE_BOX_LIBS)
  list(REMOVE_DUPLICATES libs)
  list(TRANSFORM boxes REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(${name} ${objects})
  add_library(once::once ALIAS ${name})
  target_include_directories(
    ${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                   $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PRIVATE ${libs} Threads::Threads $<BUILD_INTERFACE:once_flags>)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                           SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(BUILD_SHARED_LIBS)
    set(map ${PROJECT_SOURCE_DIR}/cmake/once.map)
    target_link_options(${name} PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined)
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${map})
  endif()
endfunction()

# once_command_part(NAME GLOB...): a room that belongs to the command and not to the library, as the OBJECT
# library once_NAME.
function(once_command_part name)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE globs)
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  find_package(fmt REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(Boost 1.81 REQUIRED)  # headers of Asio and Beast
  find_package(OpenSSL 3 REQUIRED COMPONENTS SSL)
  add_library(once_${name} OBJECT ${sources})
  target_include_directories(once_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(once_${name} PRIVATE once_flags Boost::headers PUBLIC fmt::fmt
                                             nlohmann_json::nlohmann_json OpenSSL::SSL Threads::Threads)
  once_unity(once_${name})
endfunction()

# once_command(NAME GLOB...): the executable `once`, on the public headers and those of src/tooling.
function(once_command name)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE globs)
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  find_package(fmt REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE once_shapes once_server once::once once_flags fmt::fmt
                                        CLI11::CLI11 nlohmann_json::nlohmann_json)
  once_unity(${name})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME once RUNTIME_OUTPUT_DIRECTORY
                                                            ${PROJECT_BINARY_DIR})
  if(BUILD_SHARED_LIBS)
    set_target_properties(${name} PROPERTIES INSTALL_RPATH $ORIGIN/../${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()

# once_benchmarks(GLOB...): one Google Benchmark executable.
function(once_benchmarks)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE globs)
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  find_package(benchmark REQUIRED)
  get_property(boxes GLOBAL PROPERTY ONCE_BOXES)
  add_executable(once_bench ${sources})
  target_link_libraries(once_bench PRIVATE ${boxes} once_flags benchmark::benchmark
                                           benchmark::benchmark_main)
endfunction()

# once_fuzzers(FOLDER): one executable per FOLDER/*_fuzz.cpp, of the pure boxes alone, or for requests of
# the server and all that it needs. libFuzzer drives it in a fuzz build. In any other build replay.cpp feeds it the corpus and random inputs of a fixed
# seed, as a test.
function(once_fuzzers folder)
  cmake_path(ABSOLUTE_PATH folder)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*_fuzz.cpp)
  add_custom_target(fuzzers)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM target)
    string(REGEX REPLACE "_fuzz$" "" name ${target})
    set(libraries once_core once_json once_codec once_definition)
    if(name STREQUAL request)
      if(NOT TARGET once_server)
        continue()
      endif()
      set(libraries once_server once_shapes once::once Boost::headers)
    endif()
    add_executable(${target} ${source})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} PRIVATE ${libraries} once_flags)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                               ${PROJECT_BINARY_DIR}/fuzzers)
    add_dependencies(fuzzers ${target})
    if(ONCE_BUILD_FUZZ)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    else()
      target_sources(${target} PRIVATE ${folder}/replay.cpp)
      add_test(NAME fuzz/${name} COMMAND ${target} ${folder}/corpus/${name})
      set_tests_properties(fuzz/${name} PROPERTIES LABELS fuzz TIMEOUT 120)
    endif()
  endforeach()
endfunction()
