# The program's module for GPUs, bevatron_cuda.so (src/ops/cuda_module.h). The program is linked in the same way whether or
# not the module is built with it.

# Both sides tell by this digest whether they were built from the same headers.
set(module_symbols src/ops/cuda/program.symbols)
file(GLOB shared_headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/base/*.h ${CMAKE_SOURCE_DIR}/src/tensor/*.h ${CMAKE_SOURCE_DIR}/src/ops/*.h
  ${CMAKE_SOURCE_DIR}/src/comm/*.h)
list(FILTER shared_headers EXCLUDE REGEX "/(mpi|nccl)_library\\.h$")
list(APPEND shared_headers ${module_symbols})
list(TRANSFORM shared_headers PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE shared_paths)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/headers_digest.c
  COMMAND ${CMAKE_COMMAND} "-DFILES=${shared_headers}" -DSOURCE=${CMAKE_SOURCE_DIR}
          -DOUTPUT=${CMAKE_BINARY_DIR}/headers_digest.c -P ${CMAKE_SOURCE_DIR}/cmake/headers_digest.cmake
  DEPENDS ${shared_paths} ${CMAKE_SOURCE_DIR}/cmake/headers_digest.cmake
  COMMENT "Taking the digest of the headers that the program shares with its module for GPUs"
  VERBATIM)
add_library(bevatron_headers OBJECT ${CMAKE_BINARY_DIR}/headers_digest.c)
set_target_properties(bevatron_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(bevatron_headers PRIVATE bevatron_options)
target_sources(bevatron_ops PRIVATE $<TARGET_OBJECTS:bevatron_headers>)

# The functions that the module calls: programs export f as __wrap_f, and the module's calls of f go to __wrap_f. So no
# library that a program loads finds its own functions replaced by ours. What links comm has all of them.
set(exports "")
set(list "{\n")
set(wraps "")
file(STRINGS ${CMAKE_SOURCE_DIR}/${module_symbols} symbols REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${module_symbols})
foreach(symbol ${symbols})
  string(APPEND exports "-u ${symbol} --defsym=__wrap_${symbol}=${symbol}\n")
  string(APPEND list "    __wrap_${symbol};\n")
  string(APPEND wraps "--wrap=${symbol}\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/exports.list CONTENT "${list}};\n")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/exports.options CONTENT "${exports}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/wraps.options CONTENT "${wraps}")
if(NOT BEVATRON_SANITIZE AND NOT BEVATRON_THREAD_SANITIZE AND NOT BEVATRON_FUZZ)
  target_link_options(bevatron_comm INTERFACE
    LINKER:@${CMAKE_BINARY_DIR}/exports.options LINKER:--dynamic-list=${CMAKE_BINARY_DIR}/exports.list)
  set_property(TARGET bevatron_comm APPEND PROPERTY INTERFACE_LINK_DEPENDS
    ${CMAKE_BINARY_DIR}/exports.options ${CMAKE_BINARY_DIR}/exports.list)
endif()
if(NOT BEVATRON_HAS_CUDA)
  return()
endif()

file(GLOB module_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/cuda/*.c ${CMAKE_SOURCE_DIR}/src/ops/cuda/*.cu)
list(APPEND module_sources ${CMAKE_SOURCE_DIR}/src/comm/cuda_entries.c)
if(BEVATRON_HAS_CUDNN)
  list(FILTER module_sources EXCLUDE REGEX "/attention_cudnn_none\\.c$")
else()
  list(FILTER module_sources EXCLUDE REGEX "/(attention_cudnn|cudnn_(graph|sketch))\\.c$")
endif()
if(BEVATRON_HAS_NCCL)
  list(APPEND module_sources ${CMAKE_SOURCE_DIR}/src/comm/nccl.c ${CMAKE_SOURCE_DIR}/src/comm/nccl_library.c)
endif()
include(cmake/cuda_units.cmake)
bevatron_cuda_units(module_sources)
add_library(bevatron_cuda MODULE ${module_sources} $<TARGET_OBJECTS:bevatron_headers>)
set(module_objects bevatron_cuda)

# Instructions of one generation need code for it alone ("90a").
if(BEVATRON_CUDA_CODE MATCHES "sm_90")
  file(GLOB hopper_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/cuda/hopper/*.cu)
  bevatron_cuda_units(hopper_sources)
  add_library(bevatron_hopper OBJECT ${hopper_sources})
  set_target_properties(bevatron_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real POSITION_INDEPENDENT_CODE ON)
  target_sources(bevatron_cuda PRIVATE $<TARGET_OBJECTS:bevatron_hopper>)
  target_compile_definitions(bevatron_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:BEVATRON_HOPPER>)
  list(APPEND module_objects bevatron_hopper)
endif()

# Compressed, the module is a fraction of its size; the driver unpacks what a run uses. It needs no C++ library: nothing
# throws, and the only static variables that are set at run time are nvcc's own, which all threads set to the same value.
set(cuda_options -O3 -Xcompiler=-Wall,-Wextra,-fno-exceptions,-fno-threadsafe-statics -Xfatbin=-compress-all)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  list(APPEND cuda_options --compress-mode=size)
endif()
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  list(APPEND cuda_options -lineinfo)
endif()
foreach(target ${module_objects})
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 17)
  target_link_libraries(${target} PRIVATE bevatron_options)
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${CUBLASLT_INCLUDE})
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_options}>")
endforeach()
set(module_facts BEVATRON_CUDA_MAJOR=${CUDAToolkit_VERSION_MAJOR} BEVATRON_CUDA_MINOR=${CUDAToolkit_VERSION_MINOR}
  "BEVATRON_CUDA_CODE=\"${BEVATRON_CUDA_CODE}\"")
foreach(part CUDNN NCCL)
  if(BEVATRON_HAS_${part})
    target_include_directories(bevatron_cuda SYSTEM PRIVATE ${${part}_INCLUDE})
    list(APPEND module_facts BEVATRON_${part})
  endif()
endforeach()
target_compile_definitions(bevatron_cuda PRIVATE "$<$<COMPILE_LANGUAGE:C>:${module_facts}>")

# The CUDA runtime is linked statically and opens the driver itself; all else is loaded when needed, see
# src/base/library.h. Linked lazily, so that a module of another version loads far enough to tell its version.
set_target_properties(bevatron_cuda PROPERTIES PREFIX "" SUFFIX .so LINKER_LANGUAGE C CUDA_RUNTIME_LIBRARY None
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/cuda_module.map;${CMAKE_BINARY_DIR}/wraps.options")
target_link_libraries(bevatron_cuda PRIVATE CUDA::cudart_static)
target_link_options(bevatron_cuda PRIVATE LINKER:-z,lazy LINKER:--as-needed LINKER:@${CMAKE_BINARY_DIR}/wraps.options
  LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/cuda_module.map)
set(is_whole no)
if(BEVATRON_HAS_CUDNN AND BEVATRON_HAS_NCCL)
  set(is_whole yes)
endif()
add_custom_command(TARGET bevatron_cuda POST_BUILD VERBATIM
  COMMAND ${CMAKE_SOURCE_DIR}/tools/check_module $<TARGET_FILE:bevatron_cuda> ${CMAKE_SOURCE_DIR}/${module_symbols} ${is_whole})
