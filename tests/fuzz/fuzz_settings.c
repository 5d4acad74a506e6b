// layer: config
// Settings of other programs: the first byte chooses nanoGPT's, torchtitan's or NeMo's. No word has a control character
// that ends a comment or a quotation.
#include "fuzz.h"

#include "base/error.h"
#include "config/migrate.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"x.py", "x.toml", "x.yaml"};
    struct shell_reading reading;
    if (size == 0)
        return 0;
    struct buffer file = {0};
    buffer_append(&file, data + 1, size - 1);
    int status = migrate_read_settings(names[data[0] % 3], &file, &reading);
    CHECK(status == 0 ? reading.call_count == 1 : *error_message() != '\0');
    for (size_t i = 0; i < reading.call_count; i++) {
        struct migration migration;
        migrate_call(&reading.calls[i], &migration);
        for (int64_t k = 0; k < migration.words.count; k++)
            for (const char *p = migration.words.items[k]; *p; p++)
                CHECK((unsigned char)*p >= ' ' || *p == '\t');
        migration_free(&migration);
    }
    error_clear();
    shell_reading_free(&reading);
    buffer_free(&file);
    return 0;
}
