# What `cmake --install` puts in place: headers, library, command, the schema of workflows,
# find_package(once) and once.pc.
include_guard()
include(CMakePackageConfigHelpers)

set(once_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/once)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/once DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/docs/workflow.schema.json
        DESTINATION ${CMAKE_INSTALL_DATADIR}/once)
install(TARGETS once EXPORT once-targets)
install(EXPORT once-targets NAMESPACE once:: DESTINATION ${once_package_dir})
if(TARGET once_cli)
  install(TARGETS once_cli)
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/once-config.cmake.in once-config.cmake
                              INSTALL_DESTINATION ${once_package_dir})
write_basic_package_version_file(once-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/once-config.cmake ${PROJECT_BINARY_DIR}/once-config-version.cmake
        DESTINATION ${once_package_dir})

if(ONCE_NATS)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/FindNats.cmake DESTINATION ${once_package_dir})
endif()

# A static library leaves its own dependencies to whoever links it.
set(once_pc_requires "sqlite3 libcrypto")
if(ONCE_NATS)
  string(APPEND once_pc_requires " libnats")
endif()
if(BUILD_SHARED_LIBS)
  string(PREPEND once_pc_requires "Requires.private: ")
else()
  string(PREPEND once_pc_requires "Requires: ")
endif()
file(RELATIVE_PATH once_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/once.pc.in once.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/once.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
