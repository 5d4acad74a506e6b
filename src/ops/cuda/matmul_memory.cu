// The algorithms that were chosen for matmuls, in this run and in earlier ones, and by which rank. ops/choices.c keeps
// the list and its file; the library checks an algorithm before it is used.
//
// The first of the ranks that joined (see device_join) chooses for all: ranks reach the matmuls in the same order, so
// the others wait for its choice at each new one. They wait even if their list has it, because the first rank's library
// may refuse that algorithm and the matmul be timed again. Matmuls whose shapes differ between ranks (is_uneven) are
// excluded: a rank may have none, or one that it already knows, and would not wait. For these each rank takes the first
// algorithm of the library's list.
#include "ops/cuda/matmul.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct matmul_memory *matmul_memory_open(int index, const char *path, bool allows_tf32) {
    struct matmul_memory *memory = (struct matmul_memory *)memory_alloc(sizeof *memory);
    struct cudaDeviceProp properties;
    CHECK_CUDA(cudaGetDeviceProperties(&properties, index));
    char identity[160];
    snprintf(identity, sizeof identity, "bevatron products 5, cuBLASLt %zu, %.64s, %d processors%s",
             cublaslt()->cublasLtGetVersion(), properties.name, properties.multiProcessorCount,
             allows_tf32 ? ", TF32" : "");
    choices_open(&memory->choices, identity, sizeof(struct matmul_key), sizeof(struct matmul_choice));
    if (path) {
        memory->path = memory_string(path);
        choices_load(&memory->choices, path);
    }
    return memory;
}

void matmul_memory_close(struct matmul_memory *memory) {
    if (!memory)
        return;
    choices_close(&memory->choices);
    free(memory->path);
    free(memory);
}

bool matmul_memory_find(const struct matmul_memory *memory, const struct matmul_key *key,
                        struct matmul_choice *choice) {
    const void *found = choices_find(&memory->choices, key);
    if (found)
        memcpy(choice, found, sizeof *choice);
    return found != NULL;
}

void matmul_memory_keep(struct matmul_memory *memory, const struct matmul_plan *plan) {
    choices_add(&memory->choices, &plan->key, &plan->choice);
    if (memory->path)
        choices_save(&memory->choices, memory->path);
}

extern "C" void cuda_join(struct device *device, const struct device_peers *peers) {
    struct matmul_memory *memory = cuda_use(device)->memory;
    memory->peers = *peers;
    choices_share(&memory->choices, peers);
    if (peers->rank == 0)
        return;
    free(memory->path);
    memory->path = NULL;
}

void matmul_decide(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op) {
    struct matmul_memory *memory = cuda->memory;
    bool is_joint = memory->peers.broadcast && matmul_can_time(cuda, &plan->key, op);
    if (!is_joint || memory->peers.rank == 0)
        matmul_choose(cuda, plan, op);
    if (!is_joint)
        return;
    struct matmul_choice choice = plan->choice;
    memory->peers.broadcast(memory->peers.context, &choice, sizeof choice);
    if (memory->peers.rank == 0)
        return;
    choices_add(&memory->choices, &plan->key, &choice);
    matmul_choose(cuda, plan, op);
}
