// The environment of launched ranks: --env and --export, and the variables that configuration files refer to. A job may
// start hours later, on another machine, from a shell with other variables, so the values of a file's ${NAME} at
// submission are written into the job.
#include "base/environment.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/launch.h"
#include "cluster/shell.h"

#include <stdlib.h>
#include <string.h>

// Sets one NAME=VALUE of the list for files read after this.
static void set_pair(const char *pair) {
    size_t length = strcspn(pair, "=");
    if (pair[length] != '=' || !shell_is_name(pair, length))
        return;  // refused by the code that writes the job
    char *name = memory_printf("%.*s", (int)length, pair);
    environment_set(name, pair + length + 1);
    free(name);
}

// NAME=VALUE, or NAME with its present value.
static int add_item(struct string_list *environment, const char *item) {
    size_t length = strcspn(item, "=");
    if (strcmp(item, "ALL") == 0)
        return 0;
    if (strcmp(item, "NONE") == 0 || strcmp(item, "NIL") == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--export %s would take PATH and LD_LIBRARY_PATH from the ranks; name the variables to "
                              "set: --export NAME=VALUE,NAME",
                              item);
    if (!shell_is_name(item, length))
        return error_set_code(EXIT_CODE_USAGE,
                              "--export \"%s\" is neither NAME nor NAME=VALUE; a value that contains a comma goes "
                              "with --env NAME=VALUE",
                              item);
    const char *value = item[length] ? item + length + 1 : environment_find(item);
    if (!value)
        return error_set_code(EXIT_CODE_USAGE, "--export %s: the variable is not set here; give %s=VALUE", item, item);
    char *pair = memory_printf("%.*s=%s", (int)length, item, value);
    string_list_add(environment, pair);
    free(pair);
    return 0;
}

int launch_export(const struct string_list *exported, struct string_list *environment) {
    for (int64_t i = 0; i < exported->count; i++)
        for (const char *at = exported->items[i]; *at;) {
            size_t length = strcspn(at, ",");
            char *item = memory_printf("%.*s", (int)length, at);
            int status = length > 0 ? add_item(environment, item) : 0;
            free(item);
            TRY(status);
            at += length + (at[length] == ',');
        }
    for (int64_t i = 0; i < environment->count; i++)
        set_pair(environment->items[i]);
    return 0;
}

static bool has_pair(const struct string_list *environment, const char *pair) {
    size_t length = strcspn(pair, "=") + 1;
    for (int64_t i = 0; i < environment->count; i++)
        if (strncmp(environment->items[i], pair, length) == 0)
            return true;
    return false;
}

void launch_export_found(struct string_list *environment) {
    char *pair;
    for (size_t i = 0; (pair = environment_found(i)) != NULL; i++) {
        if (!has_pair(environment, pair))
            string_list_add(environment, pair);
        free(pair);
    }
}
