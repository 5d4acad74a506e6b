// Text as training data: finds the tokenizer and the datasets that were made from it earlier, or makes them. The cache
// is keyed by content and all flags that matter, not by the text's name, place or time. So a changed text gets another
// entry, runs that use the older one are not disturbed, and a renamed text keeps its entry.
//
//   ROOT/NAME-DIGEST.prints.json     fingerprints of NAME's files when they were last read
//   ROOT/NAME-DIGEST/                data_text_document.bin and .idx (or data_text_sentence), manifest.json; "text" is
//                                    the member that was read; remark.txt if users are to be told something
//   ROOT/tokenizer-DIGEST/           vocab.json, merges.txt, tokenizer.json, manifest.json
//   ROOT/….lock                      while an entry is built
//   ROOT/…/used                      locked by processes that use the entry; when it was last used
#ifndef DATA_TEXT_CACHE_H
#define DATA_TEXT_CACHE_H

#include "config/flag.h"
#include "data/file_print.h"
#include "data/tokenizer/tokenizer.h"

// The files that one name stands for, and their fingerprints.
struct text_source {
    const char *name;  // a file, a folder or a pattern; the caller's
    struct string_list files;
    struct file_print *prints;  // (files)
    bool *are_plain;            // (files) plain text, not JSON Lines
};

struct text_cache {
    struct string_list roots;  // folders that may hold the cache, best first
    const char *key;           // the member of JSON Lines that holds the text
    int threads;
};

// Whether the name stands for text: a file, a folder or a pattern, here or in S3, and not the prefix of a dataset.
bool text_source_exists(const char *name);
// Finds the files and whether each is plain text; one that is neither text nor JSON Lines is an error. All ends with
// text_source_close, also after an error.
int text_source_list(struct text_source *source, const char *name);
// text_source_list, and reads files that have changed since the cache last saw them.
int text_source_open(struct text_source *source, const char *name, const struct text_cache *cache);
void text_source_close(struct text_source *source);  // safe on a zeroed one
// The folder that the cache of a name is put in by default: .bevatron-cache beside the file or in the folder; NULL for
// sources in S3 or on the web. To be freed.
char *text_source_default_root(const char *name);

// A byte-level BPE of at most this many tokens, trained on all sources. *folder has its three files, and is to be
// freed.
struct text_sources {
    const struct text_source *items;
    int64_t count;
};
int text_cache_tokenizer(char **folder, const struct text_cache *cache, struct text_sources sources,
                         int64_t vocab_size);

// The dataset of a source. *prefix is to be freed.
struct text_dataset {
    const struct tokenizer *tokenizer;
    const char *identity;  // all that its ids depend on, see tokenizer_describe
    bool append_eod;
    bool split_sentences;
};
int text_cache_dataset(char **prefix, const struct text_cache *cache, const struct text_source *source,
                       const struct text_dataset *dataset);

// ---- entries ----

// An entry of a cache on disk: a folder of files that were made from something else. Its manifest, a list of prints
// (file_print.h), is written last, so an entry is complete or absent, and later damage to files is noticed. One process
// builds an entry at a time; others that want it wait. A builder that is killed leaves files that the next one
// continues or replaces. Datasets that have not been used for a month are removed.

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
