// layer: config
// Shell scripts that start a training, and the flags of the command that they end in. Every mark has a name, and
// nothing ends the quotation of a printed word.
#include "fuzz.h"

#include "base/error.h"
#include "config/migrate.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct string_list set = {0}, arguments = {0};
    struct shell_reading reading;
    string_list_add(&set, "A=1");
    string_list_add(&arguments, "x y");
    struct shell_input input = {
        .name = "x.sh", .text = (const char *)data, .length = size, .arguments = &arguments, .set = &set};
    int status = shell_read(&input, &reading);
    CHECK(status == 0 || *error_message());
    const struct shell_call *call = status == 0 ? migrate_choose(&reading) : NULL;
    if (call) {
        struct migration migration;
        struct buffer out = {0};
        migrate_call(call, &migration);
        for (int64_t i = 0; i < migration.words.count; i++) {
            const char *word = migration.words.items[i];
            buffer_clear(&out);
            migrate_quote(word, false, &out);
            for (; (word = strchr(word, SHELL_MARK)); word++)
                CHECK((word[1] == SHELL_UNSET || word[1] == SHELL_UNKNOWN) && strchr(word, SHELL_MARK_END) > word + 2);
            for (const char *p = buffer_string(&out) + 1; *p == '"' && p[1]; p++)
                CHECK(p[-1] == '\\');
        }
        buffer_free(&out);
        migration_free(&migration);
    }
    error_clear();
    shell_reading_free(&reading);
    string_list_free(&set);
    string_list_free(&arguments);
    return 0;
}
