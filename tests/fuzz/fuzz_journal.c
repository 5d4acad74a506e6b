// layer: data
// The journal of a stopped preprocessing run from hostile bytes with a correct checksum: counts to resume from must not
// be negative.
#include "fuzz.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/preprocess_run.h"
#include <stdio.h>
#include <string.h>

static const char *folder;

static void write_file(const char *name, const void *bytes, size_t size) {
    char *path = memory_printf("%s/p.unfinished/%s", folder, name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    free(path);
}

static void write_journal(const uint8_t *data, size_t size) {
    struct buffer text = {0};
    struct sha256 hash;
    unsigned char digest[32];
    char hex[65];
    sha256_init(&hash);
    sha256_update(&hash, data, size);
    sha256_final(&hash, digest);
    sha256_hex(digest, hex);
    buffer_append(&text, data, size);
    buffer_printf(&text, "\n%s\n", hex);
    write_file("journal", text.data, text.length);
    write_file("settings", "same", 4);
    buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    folder = fuzz_folder();
    char *prefix = file_join(folder, "p"), *unfinished = file_join(folder, "p.unfinished");
    CHECK(file_make_folders(unfinished) == 0);
    write_journal(data, size);
    struct journal journal;
    struct preprocess_state state;
    enum journal_phase phase;
    preprocess_state_init(&state, 1);
    if (journal_open(&journal, &(struct journal_options){.output_prefix = prefix, .keys = 1, .settings = "same"},
                     &phase, &state) == 0) {
        CHECK(phase <= JOURNAL_PUBLISH && state.file >= 0 && state.line >= 0 && state.offset <= INT64_MAX);
        CHECK(state.counts.documents >= 0);
        journal_close(&journal, true);
    }
    preprocess_state_free(&state);
    file_remove_tree(unfinished);
    free(prefix);
    free(unfinished);
    return 0;
}
