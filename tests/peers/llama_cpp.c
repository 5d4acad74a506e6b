// What llama_cpp_peers.py needs from llama.cpp, through its C interface (llama.h). That script compiles it beside a
// build of llama.cpp; it is not part of this program's build.
//
//     llama_cpp MODEL.gguf tokenize|parse|logits|greedy N|hidden
//
// tokenize reads texts as hexadecimal lines and prints ids; parse also recognizes special tokens in the text. The
// others read lines of ids. logits prints those of the last position, hidden the states of all positions, greedy the
// next N ids and then their text in hexadecimal.
#include "llama.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16 };

struct llama_peer {
    struct llama_model *model;
    const struct llama_vocab *vocab;
    struct llama_context *context;
    llama_token ids[MOST];
    int count;
};

static void fail(const char *what) {
    fprintf(stderr, "llama_cpp: %s\n", what);
    exit(1);
}

static void be_quiet(enum ggml_log_level level, const char *text, void *context) {
    (void)context;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

// Everything in fp32 and without shortcuts, so that differences come from the file.
static void open_model(struct llama_peer *peer, const char *path, bool is_hidden) {
    llama_log_set(be_quiet, NULL);
    llama_backend_init();
    struct llama_model_params model_params = llama_model_default_params();
    peer->model = llama_model_load_from_file(path, model_params);
    if (!peer->model)
        fail("cannot load the model");
    peer->vocab = llama_model_get_vocab(peer->model);
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = 0;
    params.n_batch = params.n_ubatch = 512;
    params.n_threads = params.n_threads_batch = 1;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.embeddings = is_hidden;
    params.pooling_type = LLAMA_POOLING_TYPE_NONE;
    peer->context = llama_init_from_model(peer->model, params);
    if (!peer->context)
        fail("cannot make a context");
}

static void tokenize(struct llama_peer *peer, const char *line, bool parses) {
    static char text[MOST];
    int length = 0;
    unsigned byte;
    for (; sscanf(line + 2 * length, "%2x", &byte) == 1; length++)
        text[length] = (char)byte;
    int count = llama_tokenize(peer->vocab, text, length, peer->ids, MOST, true, parses);
    for (int i = 0; i < count; i++)
        printf("%s%d", i > 0 ? " " : "", peer->ids[i]);
    puts("");
}

static void read_ids(struct llama_peer *peer, char *line) {
    peer->count = 0;
    for (char *end = line; peer->count < MOST; line = end) {
        long id = strtol(line, &end, 10);
        if (end == line)
            break;
        peer->ids[peer->count++] = (llama_token)id;
    }
}

// Feeds the ids and leaves the logits of the last one. An encoder gets them all, and its decoder gets the begin token.
static void feed(struct llama_peer *peer) {
    llama_memory_t memory = llama_get_memory(peer->context);
    if (memory)
        llama_memory_clear(memory, true);
    struct llama_batch batch = llama_batch_get_one(peer->ids, peer->count);
    if (!llama_model_has_encoder(peer->model)) {
        if (llama_decode(peer->context, batch) != 0)
            fail("decoding failed");
        return;
    }
    if (llama_encode(peer->context, batch) != 0)
        fail("encoding failed");
    peer->ids[0] = llama_model_decoder_start_token(peer->model);
    if (peer->ids[0] == LLAMA_TOKEN_NULL)
        peer->ids[0] = llama_vocab_bos(peer->vocab);
    if (llama_decode(peer->context, llama_batch_get_one(peer->ids, 1)) != 0)
        fail("decoding failed");
}

static void print_floats(const float *values, int count) {
    for (int i = 0; i < count; i++)
        printf("%s%.9g", i > 0 ? " " : "", (double)values[i]);
    puts("");
}

static void print_hidden(struct llama_peer *peer) {
    struct llama_batch batch = llama_batch_init(peer->count, 0, 1);
    for (int i = 0; i < peer->count; i++) {
        batch.token[i] = peer->ids[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    batch.n_tokens = peer->count;
    if (llama_encode(peer->context, batch) != 0)
        fail("encoding failed");
    for (int i = 0; i < peer->count; i++)
        print_floats(llama_get_embeddings_ith(peer->context, i), llama_model_n_embd(peer->model));
    llama_batch_free(batch);
}

static void print_piece(const struct llama_peer *peer, llama_token id) {
    char piece[512];
    int length = llama_token_to_piece(peer->vocab, id, piece, sizeof piece, 0, false);
    for (int i = 0; i < length; i++)
        printf("%02x", (unsigned char)piece[i]);
}

static void print_greedy(struct llama_peer *peer, int wanted) {
    int vocabulary = llama_vocab_n_tokens(peer->vocab), suppressed_count = 0;
    const llama_token *suppressed = llama_vocab_get_suppress_tokens(peer->vocab, &suppressed_count);
    llama_token *made = calloc((size_t)wanted, sizeof made[0]);
    int count = 0;
    while (count < wanted) {
        float *logits = llama_get_logits_ith(peer->context, -1);
        llama_token best = 0;
        for (int i = 0; i < suppressed_count; i++)
            logits[suppressed[i]] = -1e30f;
        for (llama_token i = 1; i < vocabulary; i++)
            best = logits[i] > logits[best] ? i : best;
        made[count++] = best;
        printf("%s%d", count > 1 ? " " : "", best);
        if (count < wanted && llama_decode(peer->context, llama_batch_get_one(&made[count - 1], 1)) != 0)
            fail("decoding failed");
    }
    puts("");
    for (int i = 0; i < count; i++)
        print_piece(peer, made[i]);
    puts("");
    free(made);
}

int main(int argc, char **argv) {
    static struct llama_peer peer;
    static char line[16 * MOST];
    if (argc < 3)
        fail("usage: llama_cpp MODEL.gguf tokenize|parse|logits|greedy N|hidden");
    const char *task = argv[2];
    open_model(&peer, argv[1], strcmp(task, "hidden") == 0);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(task, "tokenize") == 0 || strcmp(task, "parse") == 0) {
            tokenize(&peer, line, strcmp(task, "parse") == 0);
            continue;
        }
        read_ids(&peer, line);
        if (strcmp(task, "hidden") == 0) {
            print_hidden(&peer);
            continue;
        }
        feed(&peer);
        if (strcmp(task, "logits") == 0)
            print_floats(llama_get_logits_ith(peer.context, -1), llama_vocab_n_tokens(peer.vocab));
        else
            print_greedy(&peer, argc > 3 ? (int)strtol(argv[3], NULL, 10) : 16);
    }
    llama_free(peer.context);
    llama_model_free(peer.model);
    return 0;
}
