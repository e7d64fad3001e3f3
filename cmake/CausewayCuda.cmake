# CUDA where its toolkit is installed; everything else builds and runs without. The kernels are compiled by
# nvcc itself, whose flags are what makes a GPU's bytes those of a CPU; the runtime is linked statically and
# looks for a driver only when it is used, so that the same causewayd runs on machines without a GPU.
#   CAUSEWAY_HAS_CUDA      whether this build has the kernels
#   CAUSEWAY_NVCC          the compiler
#   CAUSEWAY_NVCC_FLAGS    without architectures
#   CAUSEWAY_GPU_ARCHITECTURES  those of 80 90 100 that the toolkit knows: A100, H100 and H200, B200
option(CAUSEWAY_CUDA "Build the CUDA kernels where nvcc is installed" ON)
find_program(CAUSEWAY_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} /usr/local/cuda/bin)
set(CAUSEWAY_HAS_CUDA OFF)
set(CAUSEWAY_NVCC_FLAGS -std=c++20 -O3 --fmad=false --prec-div=true --prec-sqrt=true --ftz=false)
# 12.5 is the first that looks up the driver's functions by version.
if(CAUSEWAY_CUDA AND CAUSEWAY_NVCC AND TARGET CUDA::cudart_static AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.5)
  execute_process(COMMAND ${CAUSEWAY_NVCC} --list-gpu-arch OUTPUT_VARIABLE known RESULT_VARIABLE failed
                  ERROR_QUIET)
  set(CAUSEWAY_GPU_ARCHITECTURES)
  foreach(architecture 80 90 100)
    if(NOT failed AND known MATCHES "compute_${architecture}\n")
      list(APPEND CAUSEWAY_GPU_ARCHITECTURES ${architecture})
    endif()
  endforeach()
  if(CAUSEWAY_GPU_ARCHITECTURES)
    set(CAUSEWAY_HAS_CUDA ON)
  endif()
endif()
message(STATUS "CUDA kernels: ${CAUSEWAY_HAS_CUDA} ${CAUSEWAY_GPU_ARCHITECTURES}")

# causeway_cuda_object(OUT source.cu): compiles for every architecture, and as PTX for those to come; OUT names
# the object. The build fails where the PTX rounds otherwise than the CPU (compression/device/check_ptx.py);
# tests/unit/compression checks that of every architecture.
function(causeway_cuda_object out source)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
  set(code)
  foreach(architecture ${CAUSEWAY_GPU_ARCHITECTURES})
    list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET CAUSEWAY_GPU_ARCHITECTURES -1 newest)
  list(APPEND code -gencode arch=compute_${newest},code=compute_${newest})
  cmake_path(GET object PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${source}.ptx)
  add_custom_command(
    OUTPUT ${ptx}
    COMMAND ${CAUSEWAY_NVCC} ${CAUSEWAY_NVCC_FLAGS} -arch=compute_${newest} -Xcompiler -ffp-contract=off
            -I${CMAKE_SOURCE_DIR} -MD -MT ${ptx} -MF ${ptx}.d -ptx ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${ptx}.unchecked
    COMMAND ${CMAKE_SOURCE_DIR}/compression/device/check_ptx.py ${ptx}.unchecked
    COMMAND ${CMAKE_COMMAND} -E rename ${ptx}.unchecked ${ptx}
    DEPENDS ${source} ${CMAKE_SOURCE_DIR}/compression/device/check_ptx.py
    DEPFILE ${ptx}.d
    COMMENT "nvcc -ptx ${source}" VERBATIM)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CAUSEWAY_CCACHE} ${CAUSEWAY_NVCC} ${CAUSEWAY_NVCC_FLAGS} ${code} -Xcompiler -fPIC,-ffp-contract=off
            -I${CMAKE_SOURCE_DIR} -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${source} ${ptx}
    DEPFILE ${object}.d
    COMMENT "nvcc ${source}" VERBATIM)
  set(${out} ${object} PARENT_SCOPE)
endfunction()
