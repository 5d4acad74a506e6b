# CUDA files that are compiled together. NVIDIA's headers take two seconds for each file, more than most of ours: the 49
# files took twice as long one by one. A unit is a file that includes its members, so they share their static names. A
# file that no unit names is compiled by itself.
set(BEVATRON_CUDA_UNITS
  "attention: attention attention_backward attention_masked softmax_merge"
  "attention_tensor: attention_tensor_forward attention_largest"
  "experts: experts latent router balance slots slots_sort"
  "expert_float8: expert_float8 blocks"
  "matmul: matmul matmul_choose grouped_tensor cudnn_side_kernel device copy profile record"
  "plain: grouped matmul_plain matmul_restored sinkhorn"
  "quantize: quantize float4"
  "rows: activation dropout embedding loss norm_forward position"
  "updates: adam muon reduce"
  "hopper_attention: hopper/attention_hopper hopper/attention_hopper_backward"
  "hopper_grouped: hopper/grouped_hopper hopper/many_hopper")

# bevatron_cuda_units(LIST): puts units in the place of their members in a list of CUDA files.
function(bevatron_cuda_units list)
  set(sources ${${list}})
  foreach(unit ${BEVATRON_CUDA_UNITS})
    string(REGEX MATCH "^[a-z0-9_]+" name "${unit}")
    string(REGEX REPLACE "^[a-z0-9_]+: " "" members "${unit}")
    string(REGEX REPLACE "[ \n]+" ";" members "${members}")
    set(text "// ${name}: files that are compiled together, see cmake/cuda_units.cmake.\n")
    set(is_here no)
    foreach(member ${members})
      set(path ${CMAKE_SOURCE_DIR}/src/ops/cuda/${member}.cu)
      if(path IN_LIST sources)
        list(REMOVE_ITEM sources ${path})
        string(APPEND text "#include \"ops/cuda/${member}.cu\"\n")
        set(is_here yes)
      endif()
    endforeach()
    if(is_here)
      file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cuda_units/${name}.cu CONTENT "${text}" @ONLY)
      list(APPEND sources ${CMAKE_BINARY_DIR}/cuda_units/${name}.cu)
    endif()
  endforeach()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()
