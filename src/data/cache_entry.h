// An entry of a cache on disk: a folder of files that were made from something else. Its manifest, a list of prints
// (file_print.h), is written last, so an entry is complete or absent, and later damage to files is noticed. One process
// builds an entry at a time; others that want it wait. A builder that is killed leaves files that the next one
// continues or replaces. Datasets that have not been used for a month are removed.
#ifndef DATA_CACHE_ENTRY_H
#define DATA_CACHE_ENTRY_H

#include "config/flag.h"

struct cache_entry {
    const struct string_list *roots;  // folders that may hold the cache, best first
    const char *name;                 // of the entry's folder, derived from the description
    const char *description;          // all that the files depend on
    const char *const *files;         // names of its files, NULL at the end
    const char *doing;                // "tokenizing books.jsonl", for processes that wait
    // Makes the files in `folder`, which exists and may hold leftovers of an earlier attempt.
    int (*build)(void *context, const char *folder);
    void *context;
};

// The beginning of a dataset's description; other entries are never removed.
extern const char cache_dataset_words[];

// Finds the entry in one of the roots, by its digest regardless of the name before it, or builds it in the first
// writable one. It is not removed while this process lives. *folder is to be freed.
int cache_entry_open(char **folder, const struct cache_entry *entry);
// The first writable root; it is created. To be freed.
int cache_entry_choose_root(char **root, const struct string_list *roots);
// "NAME-DIGEST": a name for an entry with this description. To be freed.
char *cache_entry_name(const char *name, const char *description);

#endif
