# Writes OUTPUT, which defines cuda_module_headers: a digest of the files in the list FILES, below SOURCE. The program and
# its module for GPUs share what these headers declare, and fit only if both have the same (src/ops/cuda_module.h).
set(text "")
foreach(file ${FILES})
  file(SHA256 ${SOURCE}/${file} digest)
  string(APPEND text "${file} ${digest}\n")
endforeach()
string(SHA256 digest "${text}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUTPUT} "#include \"ops/cuda_module.h\"\n\nconst char cuda_module_headers[] = \"${digest}\";\n")
