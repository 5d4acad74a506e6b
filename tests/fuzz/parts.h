// Several files in one input, for targets that read a folder. A part is the index of its name in fuzz_part_names (1
// byte), its length (3 bytes, little-endian; limited to the rest) and its bytes. The fuzz target writes the parts to a
// folder, tests/fuzz/pack_seeds.c makes inputs from real folders.
#ifndef TESTS_FUZZ_PARTS_H
#define TESTS_FUZZ_PARTS_H

#include <stddef.h>
#include <stdint.h>

static const char *const fuzz_part_names[] = {
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-00001-of-00003.safetensors",
    "model-00002-of-00003.safetensors",
    "model-00003-of-00003.safetensors",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "latest_checkpointed_iteration.txt",
    "iter_0000001/mp_rank_00/model_optim_rng.pt",
    "iter_0000001/mp_rank_01/model_optim_rng.pt",
    "iter_0000001/mp_rank_00_000/model_optim_rng.pt",
    "iter_0000001/mp_rank_00_001/model_optim_rng.pt",
    "release/mp_rank_00/model_optim_rng.pt",
    "iter_0000001/manifest.json",
    "iter_0000001/model.safetensors",
    "iter_0000001/state.json",
    "iter_0000001/config.json",
    "iter_0000001/tokenizer-model_tokenizer.json",
    "iter_0000001/metadata.json",
    "iter_0000001/.metadata",
    "iter_0000001/common.pt",
    "iter_0000001/__0_0.distcp",
    "iter_0000001/__0_1.distcp",
    "iter_0000001/__1_0.distcp",
    "iter_0000001/__1_1.distcp",
    "iter_0000001/mp_rank_01_000/model_optim_rng.pt",
    "iter_0000001/mp_rank_01_001/model_optim_rng.pt",
    "model.pt",
};
enum {
    FUZZ_PART_NAMES = sizeof fuzz_part_names / sizeof fuzz_part_names[0],
    FUZZ_PART_HEAD = 4,
    FUZZ_MOST_PARTS = 16,
};

struct fuzz_part {
    size_t name, length, begin;  // begin: of its bytes in the input
};

static inline size_t fuzz_parts_read(const uint8_t *data, size_t size, struct fuzz_part parts[FUZZ_MOST_PARTS]) {
    size_t count = 0;
    for (size_t at = 0; size - at >= FUZZ_PART_HEAD && count < FUZZ_MOST_PARTS; count++) {
        size_t length = data[at + 1] | (size_t)data[at + 2] << 8 | (size_t)data[at + 3] << 16;
        size_t left = size - at - FUZZ_PART_HEAD;
        parts[count] =
            (struct fuzz_part){data[at] % FUZZ_PART_NAMES, length < left ? length : left, at + FUZZ_PART_HEAD};
        at += FUZZ_PART_HEAD + parts[count].length;
    }
    return count;
}

static inline void fuzz_part_head(uint8_t head[FUZZ_PART_HEAD], size_t name, size_t length) {
    head[0] = (uint8_t)name;
    for (int i = 0; i < 3; i++)
        head[1 + i] = (uint8_t)(length >> 8 * i);
}

#endif
