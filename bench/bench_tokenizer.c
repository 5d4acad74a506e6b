// layer: data
// How fast a tokenizer encodes on one thread: processor time of a first pass over the documents, with an empty cache,
// and of the best of the passes after it. Prints JSON for bench_tokenizer_peers.py, which makes the text, runs the
// peers on it and compares the ids by their checksum, the sum of id times place.
//
// usage: bench_tokenizer PASSES DOCUMENTS TYPE MODEL [VOCAB [MERGES]]    documents end with a NUL; - for a missing file
#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer/tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct pass {
    int64_t ids;
    uint64_t checksum;
    double seconds;
};

static int run_pass(struct tokenizer_encoder *encoder, const struct file_map *text, struct pass *pass) {
    struct token_list ids = {0};
    *pass = (struct pass){0};
    for (size_t at = 0; at < text->size;) {
        const unsigned char *end = memchr(text->data + at, 0, text->size - at);
        size_t length = end ? (size_t)(end - text->data) - at : text->size - at;
        double begin = processor_seconds();
        ids.count = 0;
        TRY(tokenizer_encode(encoder, (const char *)text->data + at, length, &ids));
        pass->seconds += processor_seconds() - begin;
        for (int64_t i = 0; i < ids.count; i++)
            pass->checksum += (uint64_t)ids.ids[i] * (uint64_t)(++pass->ids);
        at += length + 1;
    }
    token_list_free(&ids);
    return 0;
}

static const char *argument(int argc, char **argv, int index) {
    return index < argc && strcmp(argv[index], "-") != 0 ? argv[index] : NULL;
}

static int run(int argc, char **argv) {
    struct tokenizer_options options = {.type = argv[3],
                                        .model_file = argument(argc, argv, 4),
                                        .vocab_file = argument(argc, argv, 5),
                                        .merge_file = argument(argc, argv, 6)};
    struct file_map text;
    struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    TRY(file_map_open(&text, argv[2]));
    double begin = processor_seconds();
    TRY(tokenizer_open(&tokenizer, &options));
    double open_seconds = processor_seconds() - begin;
    TRY(tokenizer_encoder_create(&encoder, tokenizer));
    struct pass cold, warm = {0};
    TRY(run_pass(encoder, &text, &cold));
    for (int i = 1; i < strtol(argv[1], NULL, 10); i++) {
        struct pass pass;
        TRY(run_pass(encoder, &text, &pass));
        if (i == 1 || pass.seconds < warm.seconds)
            warm = pass;
    }
    double megabytes = 1e-6 * (double)text.size;
    printf("{\"ids\": %" PRId64 ", \"checksum\": %" PRIu64
           ", \"open_seconds\": %.3f, \"cold\": %.1f, \"warm\": %.1f}\n",
           cold.ids, cold.checksum, open_seconds, megabytes / cold.seconds,
           warm.seconds > 0 ? megabytes / warm.seconds : 0);
    tokenizer_encoder_free(encoder);
    tokenizer_free(tokenizer);
    file_map_close(&text);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        puts("run by bench_tokenizer_peers.py");
        return 0;
    }
    if (run(argc, argv) == 0)
        return 0;
    fprintf(stderr, "bench_tokenizer: %s\n", error_message());
    return 1;
}
