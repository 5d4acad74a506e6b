// --pipeline-model-parallel-layout, in Megatron-LM's notation: the layers of each chunk of a pipeline.
//
//   E  embedding      t  layer      m  depth of multi-token prediction      L  head and loss      |  between two chunks
//
// x*3 stands for xxx and (tt|)*3 for tt|tt|tt|; commas only separate. Parentheses do not nest, and only one number
// follows them. "Et*3|(tt|)*2,tmL" is "Ettt|tt|tt|tmL": four chunks of 3, 2, 2 and 1 layers.
#ifndef CONFIG_PIPELINE_LAYOUT_H
#define CONFIG_PIPELINE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum { LAYOUT_MOST_SYMBOLS = 1 << 18, LAYOUT_MOST_CHUNKS = 128 };  // the latter per stage

// The error in a text and its byte; `what` is NULL if there is none.
struct layout_mistake {
    const char *what;
    size_t at;
};

// The text without commas, numbers and parentheses, to be freed; NULL with a mistake.
char *pipeline_layout_expand(const char *text, struct layout_mistake *mistake);
// For an expanded text: its number of chunks, and the number of a symbol in one chunk, or in all chunks before one.
int64_t pipeline_layout_chunks(const char *expanded);
int64_t pipeline_layout_count(const char *expanded, int64_t chunk, char symbol);
int64_t pipeline_layout_before(const char *expanded, int64_t chunk, char symbol);

#endif
