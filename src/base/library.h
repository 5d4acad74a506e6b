// Shared libraries that the program loads when it needs them, and its own module for GPUs. One program thus runs on
// machines with and without GPUs, MPI and libcurl, and names what a machine lacks. Loaded libraries are process state.
//
// A `struct library` holds the names of a library and the places to look for it. It lives in the folder of its users,
// together with its symbols: a struct of pointers, each typed by the library's own header and named like the symbol.
// Both come from one list with a row per symbol:
//
//     #define NCCL_SYMBOLS(ROW) ROW(ncclGetVersion) ROW(ncclSend) …
//     struct nccl_symbols { NCCL_SYMBOLS(LIBRARY_FIELD) };
//     static const struct library nccl_row = {.name = "NCCL", LIBRARY_SYMBOLS(NCCL_SYMBOLS), …};
//
// Callers write library_symbols(LIBRARY_NCCL)->ncclSend(…), by a macro that checks the result.
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include "base/buffer.h"

#include <stdbool.h>

enum library_id {
    LIBRARY_CUDA_MODULE,
    LIBRARY_DRIVER,
    LIBRARY_CUBLASLT,
    LIBRARY_NVRTC,
    LIBRARY_CUDNN,
    LIBRARY_NCCL,
    LIBRARY_MPI,
    LIBRARY_NVML,
    LIBRARY_CURL,
    LIBRARY_MICROHTTPD,
    LIBRARY_COUNT
};

// In C++ a field may not have the same name as an entity in its type, unless that is qualified.
#ifdef __cplusplus
#define LIBRARY_FIELD(symbol) __typeof__(&::symbol) symbol;
#else
#define LIBRARY_FIELD(symbol) __typeof__(&symbol) symbol;
#endif
#define LIBRARY_NAME(symbol) #symbol,
// For the initializer of a struct library outside of functions: a list of texts, and the names of all symbols.
#define LIBRARY_LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define LIBRARY_SYMBOLS(list)                                                                                          \
    .symbols = (const char *const[]){list(LIBRARY_NAME)},                                                              \
    .symbol_count = (int)(sizeof((const char *const[]){list(LIBRARY_NAME)}) / sizeof(char *))
// A number that a header defines, as text: "libcudnn.so." LIBRARY_TEXT(CUDNN_MAJOR).
#define LIBRARY_TEXT(number) LIBRARY_TEXT_OF(number)
#define LIBRARY_TEXT_OF(number) #number

struct library {
    enum library_id id;
    const char *name;            // "NCCL"
    const char *user;            // its use: "collectives between GPUs"
    const char *variable;        // of the environment: a file or folder, which is then the only one tried
    const char *const *sonames;  // best first, ended by NULL, like the lists below
    // Where to look after the dynamic loader found nothing: patterns of glob(3). "$NAME/…" is left out if that variable
    // is not set; "$ORIGIN" is the program's folder.
    const char *const *folders;
    const char *const *rivals;   // sonames that users may have instead and that do not fit; NULL: none
    const char *rivals_are;      // "MPICH, which has another ABI"
    const char *package;         // "apt-get install libnccl2, or pip install 'nvidia-nccl-cu13==2.*'"
    const char *instead;         // what works without it: "use --device cpu"; NULL: the caller says it
    const char *companions;      // a pattern: files beside it that it opens by name alone; NULL: none
    const char *const *symbols;  // names, in the order of the fields; the first one tells the version
    int symbol_count;
    bool is_own;             // comes with the program: the dynamic loader does not look for it
    bool is_global;          // its own plugins refer to its symbols
    bool is_beside_starter;  // first try the library of the program that started this one, e.g. mpirun
    // Writes the version. Returns -1 after error_set if it is the wrong one: the message follows the file's name.
    int (*check)(const void *symbols, char *version, size_t size);
};

// Sets the lookup of environment variables, which only the command line may read; NULL for no variables.
void library_set_environment(const char *(*get)(const char *name));

// Loads it unless it is loaded; it stays until the process ends. -1 after error_set with the places searched and a
// remedy.
int library_load(const struct library *library);

// The symbols of a loaded library; NULL if it is not loaded. Read-only: library_load writes it.
extern const void *library_tables[LIBRARY_COUNT];
static inline const void *library_symbols(enum library_id id) {
    return library_tables[id];
}

// Loads it and writes "2.28.3  /usr/lib/libnccl.so.2"; false: writes what is missing or unfit and which package has it.
bool library_describe(const struct library *library, struct buffer *out);

#endif
