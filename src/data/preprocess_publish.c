// Turns the files of a store into datasets under their final names, in three steps that can each be repeated after a
// kill: the .idx files are written beside the tokens, documents are dropped and reordered into new files, and then,
// after the journal says so, everything is renamed.
#include "data/preprocess_run.h"
#include "data/index/index.h"
#include "data/index/rearrange.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Datasets as they come from the store, and as they are published if documents are dropped or reordered.
static char *raw_prefix(const struct journal *journal, int64_t key) {
    return memory_printf("%s.%" PRId64, journal->prefix, key);
}

static bool is_rearranged(const struct preprocess_publish *publish) {
    return publish->options->dedup || publish->options->shuffle || publish->options->partitions > 1;
}

static char *final_prefix(const struct preprocess_publish *publish, int64_t key) {
    if (!is_rearranged(publish))
        return raw_prefix(publish->journal, key);
    return memory_printf("%s.final%" PRId64, publish->journal->prefix, key);
}

// ---- .idx ----

struct stored_list {
    const struct store *store;
    int64_t file;
};

static int read_list(void *context, uint64_t offset, void *out, size_t count) {
    const struct stored_list *list = context;
    return store_read(list->store, list->file, offset, out, count);
}

static int write_index(struct file_writer *index, const struct store *store, const struct preprocess_state *state,
                       int64_t key, enum index_dtype dtype) {
    struct stored_list of_lengths = {store, store_file(key, STORE_LENGTHS)};
    struct stored_list of_documents = {store, store_file(key, STORE_DOCUMENTS)};
    const struct index_list lengths = {read_list, &of_lengths, (int64_t)(state->bytes[of_lengths.file] / 4)};
    const struct index_list documents = {read_list, &of_documents, (int64_t)(state->bytes[of_documents.file] / 4)};
    int64_t token_end, sequence_end;
    TRY(index_write_header(index, dtype, lengths.count, documents.count + 1));
    TRY(index_write_list(index, &lengths, sizeof(int32_t)));
    TRY(index_write_pointers(index, &lengths, index_dtype_bytes(dtype), &token_end));
    TRY(index_write_boundaries(index, &documents, &sequence_end));
    if ((uint64_t)token_end != state->bytes[store_file(key, STORE_TOKENS)] || sequence_end != lengths.count)
        return error_set("the unfinished output is inconsistent; start over with --restart");
    return 0;
}

static int make_index(const struct preprocess_publish *publish, const struct store *store,
                      const struct preprocess_state *state, int64_t key) {
    char *prefix = raw_prefix(publish->journal, key), *path = memory_printf("%s.idx", prefix);
    struct file_writer index;
    int result = file_create(&index, path);
    if (result == 0) {
        result = write_index(&index, store, state, key, publish->dtype);
        if (result == 0)
            result = file_commit(&index);
        else
            file_abort(&index);
    }
    free(prefix);
    free(path);
    return result;
}

// ---- documents dropped and reordered ----

static int rearrange(const struct preprocess_publish *publish, struct preprocess_state *state) {
    const int64_t keys = publish->journal->keys;
    char **inputs = memory_alloc((size_t)keys * sizeof *inputs),
         **outputs = memory_alloc((size_t)keys * sizeof *outputs);
    for (int64_t key = 0; key < keys; key++) {
        inputs[key] = raw_prefix(publish->journal, key);
        outputs[key] = final_prefix(publish, key);
    }
    const struct index_rearrange_options options = {
        .inputs = inputs,
        .outputs = outputs,
        .count = keys,
        .dedup = publish->options->dedup,
        .shuffle = publish->options->shuffle,
        .seed = publish->options->seed,
        .partitions = publish->options->partitions,
    };
    struct index_rearrange_summary summary;
    struct phase *phase = phase_begin("rearranging the documents");
    int result = index_rearrange(&options, &summary);
    phase_end(phase);
    if (result == 0) {
        state->counts.duplicates = summary.duplicates;
        state->counts.documents = summary.documents_written;
        state->counts.tokens = summary.tokens_written;
    }
    for (int64_t key = 0; key < keys; key++) {
        free(inputs[key]);
        free(outputs[key]);
    }
    free(inputs);
    free(outputs);
    return result;
}

static int write_indexes(const struct preprocess_publish *publish, struct store *store,
                         const struct preprocess_state *state) {
    struct phase *phase = phase_begin("writing the index");
    int result = store_cut(store, state->bytes);
    if (result == 0)
        result = store_sync(store);
    for (int64_t key = 0; result == 0 && key < store->keys; key++)
        result = make_index(publish, store, state, key);
    store_close(store);
    phase_end(phase);
    return result;
}

// Writes the checksums of the files as they will be published.
static int write_sums(const struct preprocess_publish *publish) {
    struct phase *phase = phase_begin("computing checksums");
    int result = 0;
    for (int64_t key = 0; result == 0 && key < publish->journal->keys; key++) {
        char *prefix = final_prefix(publish, key);
        result = index_sums_write(prefix, publish->targets[key], publish->tokenizer);
        free(prefix);
    }
    phase_end(phase);
    return result;
}

int preprocess_finish(const struct preprocess_publish *publish, struct store *store, struct preprocess_state *state) {
    TRY(write_indexes(publish, store, state));
    if (is_rearranged(publish))
        TRY(rearrange(publish, state));
    TRY(write_sums(publish));
    return journal_write(publish->journal, JOURNAL_PUBLISH, state);
}

// ---- names ----

// The file that a path leads to after following links, so that the target of a link is replaced and not the link. The
// caller frees it.
static char *resolve(const char *path) {
    char *real = realpath(path, NULL);
    return real ? real : memory_string(path);
}

// Renames a file of the folder unless an earlier attempt has done so.
static int take_name(const char *from, const char *to) {
    if (!file_exists(from)) {
        if (file_exists(to))
            return 0;
        return error_set("cannot publish %s: neither it nor %s exists; start over with --restart", to, from);
    }
    char *target = resolve(to);
    int result = 0;
    if (rename(from, target) < 0)
        result = error_set("cannot rename %s to %s: %s; %s", from, target, strerror(errno),
                           errno == EXDEV ? "remove the link to another disk" : "run it again");
    free(target);
    return result;
}

// An old .idx is removed before its .bin is replaced: there is never an .idx beside the .bin of another dataset.
static int publish_key(const struct preprocess_publish *publish, int64_t key) {
    char *from = final_prefix(publish, key);
    char *from_tokens = memory_printf("%s.bin", from), *from_index = memory_printf("%s.idx", from);
    char *tokens = memory_printf("%s.bin", publish->targets[key]),
         *index = memory_printf("%s.idx", publish->targets[key]);
    char *from_sums = memory_printf("%s.sha256", from), *sums = memory_printf("%s.sha256", publish->targets[key]);
    int result = file_exists(from_tokens) ? index_sums_remove(publish->targets[key]) : 0;
    if (result == 0 && file_exists(from_tokens)) {
        char *old = resolve(index);
        if (unlink(old) < 0 && errno != ENOENT)
            result = error_set("cannot replace %s: %s; choose a writable folder", old, strerror(errno));
        free(old);
    }
    if (result == 0)
        result = take_name(from_tokens, tokens);
    if (result == 0)
        result = take_name(from_index, index);
    // The unfinished output of an older program has none.
    if (result == 0 && file_exists(from_sums))
        result = take_name(from_sums, sums);
    free(from_sums);
    free(sums);
    free(from);
    free(from_tokens);
    free(from_index);
    free(tokens);
    free(index);
    return result;
}

int preprocess_publish_bad_lines(const struct preprocess_publish *publish, const struct preprocess_state *state) {
    const int64_t keys = publish->journal->keys;
    if (state->counts.bad_lines == 0)
        return 0;
    char *from = store_path(publish->journal->prefix, keys, store_bad_lines(keys));
    int result = take_name(from, publish->bad_lines);
    free(from);
    return result;
}

int preprocess_publish(const struct preprocess_publish *publish, const struct preprocess_state *state) {
    for (int64_t key = 0; key < publish->journal->keys; key++)
        TRY(publish_key(publish, key));
    TRY(preprocess_publish_bad_lines(publish, state));
    char *folder = file_parent(publish->journal->folder);
    int result = file_sync_folder(folder);
    free(folder);
    return result;
}
