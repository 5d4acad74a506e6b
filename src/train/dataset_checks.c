// Compares datasets with those of other ranks, with the tokenizer, and with the flags. See datasets.h.
#include "train/datasets.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/file_print.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the same files on all ranks ----

enum { PIECES = 1024, FILES = 2 };
enum { SKETCH_WORDS = sizeof(struct file_sketch) / sizeof(int64_t) };

static const char *const endings[FILES] = {".idx", ".bin"};

static int compare(const char *path, struct file_sketch own, struct file_sketch first) {
    const char *remedy = "; give all machines the same files, or put them on a file system that all share";
    if (own.bytes == first.bytes && own.hash == first.hash)
        return 0;
    if (own.bytes < 0 || first.bytes < 0)
        return error_set_code(EXIT_CODE_BAD_DATA, "%s can%s be read here, but can%s by rank 0%s", path,
                              own.bytes < 0 ? "not" : "", first.bytes < 0 ? "not" : "", remedy);
    if (own.bytes != first.bytes)
        return error_set_code(EXIT_CODE_BAD_DATA,
                              "%s is another file than rank 0's: it has %" PRId64 " bytes and not %" PRId64 "%s", path,
                              own.bytes, first.bytes, remedy);
    return error_set_code(EXIT_CODE_BAD_DATA, "%s is another file than rank 0's, of the same size%s", path, remedy);
}

int same_data_check(struct group *all, const char *const *prefixes, int64_t count) {
    if (group_size(all) == 1)
        return 0;
    OWNED struct file_sketch *own = memory_alloc(sizeof *own * (size_t)(FILES * count));
    OWNED struct file_sketch *first = memory_alloc(sizeof *first * (size_t)(FILES * count));
    int status = 0;
    int64_t seed = (int64_t)(clock_wall_seconds() * 1e6);
    comm_broadcast_i64(all, &seed, 1, 0, "where to look at the data");
    for (int64_t i = 0; i < FILES * count; i++) {
        OWNED char *path = memory_printf("%s%s", prefixes[i / FILES], endings[i % FILES]);
        first[i] = own[i] = file_sketch_take(path, PIECES, (uint64_t)seed);
    }
    comm_broadcast_i64(all, (int64_t *)first, (int)(SKETCH_WORDS * FILES * count), 0, "datasets of rank 0");
    for (int64_t i = 0; i < FILES * count && status == 0; i++) {
        OWNED char *path = memory_printf("%s%s", prefixes[i / FILES], endings[i % FILES]);
        status = compare(path, own[i], first[i]);
    }
    return comm_agree(all, status, "datasets of all ranks");
}

int same_data_check_rows(const struct mesh *mesh, uint64_t digest) {
    if (mesh->size == mesh_count(mesh, MESH_SAMPLES))
        return 0;
    // The first of the ranks with the same share of the rows sends it to the others.
    int place[AXIS_COUNT] = {0};
    mesh_move(mesh, place, MESH_SAMPLES, mesh_index(mesh, mesh->place, MESH_SAMPLES));
    int teller = mesh_rank_at(mesh, place);
    OWNED int64_t *told = memory_alloc(sizeof *told * (size_t)mesh->size);
    told[mesh->rank] = (int64_t)digest;
    comm_all_gather_i64(mesh->all, told, 1, "rows that were read");
    int status = 0;
    if (told[teller] != (int64_t)digest)
        status = error_set_code(
            EXIT_CODE_BAD_DATA,
            "it read other training data than rank %d, which should read the same rows; give all nodes the same files "
            "(e.g. on a shared file system) and resume from the last checkpoint",
            teller);
    return comm_agree(mesh->all, status, "rows that were read");
}

// ---- the tokenizer ----

int dataset_tokenizer_check(const struct tokenizer *tokenizer, const struct config *config, const char *const *prefixes,
                            int64_t count) {
    struct buffer record = {0}, fitting = {0};
    int status = 0;
    for (int64_t i = 0; tokenizer && status == 0 && i < count; i++) {
        buffer_clear(&record);
        index_tokenizer_read(prefixes[i], &record);
        // Many datasets with one tokenizer: its texts are hashed once.
        bool fits = strcmp(buffer_string(&record), buffer_string(&fitting)) == 0 ||
                    tokenizer_fits(tokenizer, buffer_string(&record));
        long long theirs = strtoll(buffer_string(&record), NULL, 10), ours = tokenizer_vocab_size(tokenizer);
        char sizes[64] = "";
        if (theirs > ours)
            (void)snprintf(sizes, sizeof sizes, " of %lld tokens, not %lld", theirs, ours);
        if (!fits && config->run.allow_changed_data)
            log_warn("the dataset %s was made with another tokenizer%s (--allow-changed-data)", prefixes[i], sizes);
        else if (!fits)
            status =
                error_set_code(EXIT_CODE_BAD_DATA,
                               "the dataset %s was made with another tokenizer%s: its ids mean other text; give the "
                               "tokenizer that `bevatron preprocess` had, or --allow-changed-data to use it anyway",
                               prefixes[i], sizes);
        buffer_clear(&fitting);
        buffer_append_string(&fitting, buffer_string(&record));
    }
    buffer_free(&record);
    buffer_free(&fitting);
    return status;
}

// ---- ends of documents ----

// FEW: with fewer documents, ends may be equal by chance.
enum { LOOKED_AT = 16, FEW = 4 };

// The last tokens of the sampled documents.
struct ends {
    int count;     // documents that have tokens
    int with_eod;  // of these
    bool is_same;  // all end with `token`
    int32_t token;
};

static void look_at(struct ends *ends, const struct index_reader *reader, int64_t document, int32_t eod) {
    int64_t first = index_document_begin(reader, document), after = index_document_begin(reader, document + 1);
    int32_t token;
    if (first < 0 || first >= after || after > reader->sequence_count || index_length(reader, after - 1) <= 0)
        return;
    if (index_read(reader, after - 1, index_length(reader, after - 1) - 1, 1, &token) < 0) {
        error_clear();
        return;
    }
    ends->is_same = ends->count == 0 || (ends->is_same && token == ends->token);
    ends->token = token;
    ends->with_eod += token == eod;
    ends->count++;
}

void document_ends_check(const struct index_reader *reader, const char *prefix, const struct config *config,
                         int32_t eod) {
    bool is_used = config->data.eod_mask_loss || config->data.reset_position_ids || config->data.reset_attention_mask;
    int64_t documents = reader->document_count, count = documents < LOOKED_AT ? documents : LOOKED_AT;
    struct ends ends = {0};
    if (eod < 0)
        return;
    for (int64_t i = 0; i < count; i++)
        look_at(&ends, reader, (int64_t)((double)i / (double)count * (double)documents), eod);
    if (ends.count == 0 || ends.with_eod > 0)
        return;
    if (is_used)
        log_warn("none of %d documents of %s ends with the tokenizer's end-of-document token, %" PRId32
                 ", which --eod-mask-loss, --reset-position-ids and --reset-attention-mask look for; write the dataset "
                 "with `bevatron preprocess --append-eod` and this tokenizer",
                 ends.count, prefix, eod);
    else if (ends.is_same && ends.count >= FEW)
        log_info("note: the documents of %s end with token %" PRId32
                 ", not with the tokenizer's end-of-document token, %" PRId32
                 "; it was written without --append-eod, or with another tokenizer",
                 prefix, ends.token, eod);
}
