# What `make install` installs, and the packages of `make package`: a .deb and an archive that runs from any folder. The
# program finds what is installed with it beside its own folder (`bevatron help files`).
set(share ${CMAKE_BINARY_DIR}/share)
add_custom_command(OUTPUT ${share}/man/man1
  COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:bevatron>" -DFOLDER=${share}
          -P ${CMAKE_SOURCE_DIR}/cmake/help_pages.cmake
  DEPENDS bevatron ${CMAKE_SOURCE_DIR}/cmake/help_pages.cmake
  COMMENT "Writing manual pages and completion scripts"
  VERBATIM)
add_custom_target(help_pages DEPENDS ${share}/man/man1)
# Which files were linked: tools/list_linked reads it.
target_link_options(bevatron PRIVATE LINKER:-Map=${CMAKE_BINARY_DIR}/bevatron.map)

if(BEVATRON_PORTABLE)
  add_custom_command(TARGET bevatron POST_BUILD VERBATIM
    COMMAND ${CMAKE_SOURCE_DIR}/tools/check_glibc $<TARGET_FILE:bevatron> ${BEVATRON_GLIBC})
  if(BEVATRON_HAS_CUDA)
    add_custom_command(TARGET bevatron_cuda POST_BUILD VERBATIM
      COMMAND ${CMAKE_SOURCE_DIR}/tools/check_glibc $<TARGET_FILE:bevatron_cuda> ${BEVATRON_GLIBC})
  endif()
endif()

# The program with its documents, and the module for GPUs, which has a package of its own.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
set(CPACK_COMPONENTS_ALL program)
install(TARGETS bevatron RUNTIME DESTINATION bin)
if(BEVATRON_HAS_CUDA)
  install(TARGETS bevatron_cuda LIBRARY DESTINATION lib/bevatron COMPONENT cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
install(DIRECTORY ${share}/ DESTINATION share)
install(FILES README.md CHANGELOG.md DESTINATION share/doc/bevatron)
install(FILES LICENSE DESTINATION share/doc/bevatron RENAME copyright)
install(FILES bench/RESULTS.md bench/muon-curves.svg DESTINATION share/doc/bevatron/bench)
install(DIRECTORY docs/ DESTINATION share/doc/bevatron/docs
  PATTERN "*.c" EXCLUDE PATTERN CMakeLists.txt EXCLUDE)
# The demo needs a program of the source tree.
install(DIRECTORY examples/ DESTINATION share/bevatron/examples USE_SOURCE_PERMISSIONS
  PATTERN demo EXCLUDE)
# Some systems leave out share/doc; the examples stay there, and the documents' links to them work.
install(CODE "
  set(doc \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/bevatron\")
  file(REMOVE \"\${doc}/examples\")
  file(CREATE_LINK ../../bevatron/examples \"\${doc}/examples\" SYMBOLIC)")
# The terms of the libraries in the program.
install(CODE "
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/list_linked copyrights ${CMAKE_BINARY_DIR}
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/bevatron/libraries\" COMMAND_ERROR_IS_FATAL ANY)")

set(CPACK_GENERATOR TGZ)
find_program(DPKG_DEB dpkg-deb)
if(DPKG_DEB)
  list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_PACKAGE_NAME bevatron)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME bevatron)
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME bevatron-cuda)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "The Bevatron authors")
set(CPACK_PACKAGE_CONTACT "The Bevatron authors <maintainers@bevatron.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "language-model pretraining in C")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "Extracts and tokenizes text, trains GPT, Llama, BERT, T5 and related models on
CPUs, on NVIDIA GPUs or on a cluster, evaluates them, generates text, and
exports them to Hugging Face and llama.cpp. Flag names, dataset files and log
lines are Megatron-LM's.")
set(CPACK_DEBIAN_CUDA_DESCRIPTION "Lets bevatron use NVIDIA GPUs (${BEVATRON_CUDA_CODE}).")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_THREADS 0)
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" system)
set(CPACK_ARCHIVE_FILE_NAME ${CPACK_PACKAGE_NAME}-${PROJECT_VERSION}-${system})
set(CPACK_PACKAGE_FILE_NAME ${CPACK_ARCHIVE_FILE_NAME})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
endif()
# A portable program needs the C library alone. What it loads when it finds it is recommended, never required.
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "bevatron (= ${PROJECT_VERSION})")
if(BEVATRON_PORTABLE)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libc6 (>= ${BEVATRON_GLIBC})")
  string(APPEND CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS ", libc6 (>= ${BEVATRON_GLIBC})")
else()
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(recommended bash-completion openssh-client)
if(BEVATRON_HAS_MPI)
  list(APPEND recommended openmpi-bin)
endif()
if(BEVATRON_HAS_CURL)
  list(APPEND recommended "libcurl4 | libcurl3-gnutls" ca-certificates)
endif()
if(BEVATRON_HAS_MICROHTTPD)
  list(APPEND recommended "libmicrohttpd12t64 | libmicrohttpd12")
endif()
if(BEVATRON_HAS_CUDA)
  set(cuda ${CUDAToolkit_VERSION_MAJOR})
  set(recommended_cuda "libcublas-${cuda}-${CUDAToolkit_VERSION_MINOR} | libcublas${cuda}" "libcuda1 | libnvidia-compute")
  if(BEVATRON_HAS_CUDNN)
    list(APPEND recommended_cuda libcudnn9-cuda-${cuda})
  endif()
  if(BEVATRON_HAS_NCCL)
    list(APPEND recommended_cuda libnccl2)
  endif()
endif()
list(JOIN recommended ", " CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS)
list(JOIN recommended_cuda ", " CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "bevatron-cuda, man-db, slurm-client")
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/package_kinds.cmake)
include(CPack)
