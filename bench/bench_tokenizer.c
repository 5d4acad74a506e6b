// layer: data
// How fast a tokenizer encodes: processor time of a first pass over the documents, with an empty cache, and of the best
// of the passes after it. Prints JSON for bench_tokenizer_peers.py, which makes the text, runs the peers on it and
// compares the ids by their checksum, the sum of id times place in its document.
//
// With THREADS, that many encode the documents at once, each with an encoder of its own, and the clock on the wall
// counts.
//
// usage: bench_tokenizer PASSES[:THREADS] DOCUMENTS TYPE MODEL [VOCAB [MERGES]]
// Documents end with a NUL; - stands for a missing file.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/tokenizer/tokenizer.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// A pass, and what one thread adds to it. Documents are handed out by a counter.
struct bench_pass {
    const struct file_map *text;
    const size_t *begins;  // (documents + 1)
    int64_t documents;
    _Atomic int64_t next;
};

struct bench_worker {
    struct bench_pass *pass;
    struct tokenizer_encoder *encoder;
    int64_t ids;
    uint64_t checksum;
    double seconds;
    int status;
    char problem[256];
    pthread_t thread;
};

static int encode_documents(struct bench_worker *worker) {
    struct bench_pass *pass = worker->pass;
    struct token_list ids = {0};
    for (int64_t i; (i = pass->next++) < pass->documents;) {
        size_t length = pass->begins[i + 1] - pass->begins[i] - 1;
        double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
        ids.count = 0;
        TRY(tokenizer_encode(worker->encoder, (const char *)pass->text->data + pass->begins[i], length, &ids));
        worker->seconds += seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin;
        for (int64_t k = 0; k < ids.count; k++)
            worker->checksum += (uint64_t)ids.ids[k] * (uint64_t)(k + 1);
        worker->ids += ids.count;
    }
    token_list_free(&ids);
    return 0;
}

static void *worker_main(void *argument) {
    struct bench_worker *worker = argument;
    worker->status = encode_documents(worker);
    if (worker->status < 0)
        snprintf(worker->problem, sizeof worker->problem, "%s", error_message());
    return NULL;
}

struct bench_result {
    int64_t ids;
    uint64_t checksum;
    double seconds;
};

static int run_pass(struct bench_pass *pass, struct bench_worker *workers, int threads, struct bench_result *result) {
    *result = (struct bench_result){0};
    pass->next = 0;
    double begin = seconds_of(CLOCK_MONOTONIC);
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct bench_worker){.pass = pass, .encoder = workers[i].encoder};
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
            die("a thread could not be started");
    }
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    double wall = seconds_of(CLOCK_MONOTONIC) - begin;
    for (int i = 0; i < threads; i++) {
        if (workers[i].status < 0)
            return error_set("%s", workers[i].problem);
        result->ids += workers[i].ids;
        result->checksum += workers[i].checksum;
        result->seconds += workers[i].seconds;
    }
    if (threads > 1)
        result->seconds = wall;
    return 0;
}

static size_t *find_documents(const struct file_map *text, int64_t *documents) {
    *documents = 0;
    for (size_t i = 0; i < text->size; i++)
        *documents += text->data[i] == 0;
    size_t *begins = memory_alloc((size_t)(*documents + 1) * sizeof *begins);
    int64_t count = 0;
    for (size_t i = 0; i < text->size; i++)
        if (text->data[i] == 0)
            begins[++count] = i + 1;
    return begins;
}

static const char *argument(int argc, char **argv, int index) {
    return index < argc && strcmp(argv[index], "-") != 0 ? argv[index] : NULL;
}

static int run_bench(int argc, char **argv) {
    struct tokenizer_options options = {.type = argv[3],
                                        .model_file = argument(argc, argv, 4),
                                        .vocab_file = argument(argc, argv, 5),
                                        .merge_file = argument(argc, argv, 6)};
    char *rest;
    long passes = strtol(argv[1], &rest, 10);
    int threads = *rest == ':' ? (int)strtol(rest + 1, NULL, 10) : 1;
    struct file_map text;
    struct tokenizer *tokenizer;
    TRY(file_map_open(&text, argv[2]));
    struct bench_pass pass = {.text = &text};
    size_t *begins = find_documents(&text, &pass.documents);
    pass.begins = begins;
    double begin = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    TRY(tokenizer_open(&tokenizer, &options));
    double open_seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begin;
    struct bench_worker *workers = memory_alloc((size_t)threads * sizeof *workers);
    for (int i = 0; i < threads; i++)
        TRY(tokenizer_encoder_create(&workers[i].encoder, tokenizer));
    struct bench_result cold, warm = {0};
    TRY(run_pass(&pass, workers, threads, &cold));
    for (long i = 1; i < passes; i++) {
        struct bench_result result;
        TRY(run_pass(&pass, workers, threads, &result));
        if (i == 1 || result.seconds < warm.seconds)
            warm = result;
    }
    double megabytes = 1e-6 * (double)text.size;
    printf("{\"ids\": %" PRId64 ", \"checksum\": %" PRIu64
           ", \"open_seconds\": %.3f, \"cold\": %.1f, \"warm\": %.1f}\n",
           cold.ids, cold.checksum, open_seconds, megabytes / cold.seconds,
           warm.seconds > 0 ? megabytes / warm.seconds : 0);
    for (int i = 0; i < threads; i++)
        tokenizer_encoder_free(workers[i].encoder);
    free(workers);
    free(begins);
    tokenizer_free(tokenizer);
    file_map_close(&text);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        puts("run by bench_tokenizer_peers.py");
        return 0;
    }
    if (run_bench(argc, argv) == 0)
        return 0;
    fprintf(stderr, "bench_tokenizer: %s\n", error_message());
    return 1;
}
