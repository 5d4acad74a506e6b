// Which libmicrohttpd fits, and where to look for it. See web_library.h.
#include "report/board/web_library.h"
#include "base/error.h"
#include "report/board/web_server.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const symbols[] = {MICROHTTPD_SYMBOLS(LIBRARY_NAME)};
enum { SYMBOL_COUNT = sizeof symbols / sizeof symbols[0] };
_Static_assert(sizeof(struct microhttpd_symbols) == SYMBOL_COUNT * sizeof(void *), "a field per symbol");

// All versions with soname 12 have the functions above; waiting clients work well since 0.9.71.
static int check_version(const void *table, char *version, size_t size) {
    const struct microhttpd_symbols *candidate = table;
    const char *text = candidate->MHD_get_version();
    int major = 0, minor = 0, patch = 0;
    (void)sscanf(text, "%d.%d.%d", &major, &minor, &patch);
    if (major == 0 && (minor < 9 || (minor == 9 && patch < 71)))
        return error_set("is version %.20s, but 0.9.71 or later is needed", text);
    snprintf(version, size, "%s", text);
    return 0;
}

const struct library *web_library(void) {
    static const char *const sonames[] = {"libmicrohttpd.so.12", NULL};
    static const char *const folders[] = {"/usr/local/lib", "/usr/local/lib64", NULL};
    static const struct library library = {
        .id = LIBRARY_MICROHTTPD,
        .name = "microhttpd",
        .user = "web pages of the board",
        .variable = "BEVATRON_MICROHTTPD_LIBRARY",
        .sonames = sonames,
        .folders = folders,
        .package = "apt-get install libmicrohttpd12 (libmicrohttpd12t64 on Ubuntu 24.04 and Debian 13)",
        .instead = "use board --text or board --export",
        .symbols = symbols,
        .symbol_count = SYMBOL_COUNT,
        .check = check_version,
    };
    return &library;
}

int web_library_load(void) {
    return library_load(web_library());
}
