// Verifies that a written GGUF file holds its source model. Internal to this folder.
#ifndef FORMATS_GGUF_CHECK_H
#define FORMATS_GGUF_CHECK_H

#include "formats/gguf_names.h"
#include "formats/gguf.h"
#include "formats/model_source.h"

struct gguf_check {
    const struct model_write *asked;
    const struct gguf_architecture *architecture;
    const char *path;
    int64_t rows;                    // of the vocabulary
    const struct gguf_pairs *pairs;  // that were written
};
// Reads the file with our own reader, compares its pairs with those that were written, assembles our parameters from
// its tensors, compares their elements with the source's, and runs both models if the caller provided a way to. An
// encoder's file lacks its heads and is not run.
int gguf_check(const struct gguf_check *check);
// The first part: the pairs, byte by byte.
int gguf_check_pairs(const struct gguf_check *check, const struct gguf *file);

#endif
