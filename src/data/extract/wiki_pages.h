// Whole pages from one or several dumps, in batches of about a megabyte for threads to work on. One thread reads. A
// dump that ends before its closing tag is an error.
#ifndef DATA_EXTRACT_WIKI_PAGES_H
#define DATA_EXTRACT_WIKI_PAGES_H

#include "data/extract/wiki_dump.h"

struct wiki_pages_options {
    const char *const *paths;  // (path_count) "-" is standard input; must outlive the pages
    int64_t path_count;
    int threads;         // that may help to decompress
    size_t batch_bytes;  // target size; 0 for 1 MiB
    size_t page_limit;   // longest page in bytes of XML; 0 for 1 GiB
};

struct wiki_batch {
    struct buffer xml;             // from somewhere before a <page> to after a </page>; kept and reused between calls
    const struct wiki_site *site;  // of the dump; valid until the pages are closed
    const char *path;
    uint64_t offset;       // of xml in the decompressed dump
    uint64_t input_bytes;  // read from all dumps by the end of this batch, counted as stored on disk: for progress
};

struct wiki_pages;

void wiki_pages_open(struct wiki_pages **pages, const struct wiki_pages_options *options);
void wiki_pages_close(struct wiki_pages *pages);  // NULL is fine

// 1 with the next batch, 0 after the last, -1 on error.
int wiki_pages_next(struct wiki_pages *pages, struct wiki_batch *batch);

// Iterates over the pages of a batch: start with position 0; false after the last. xml is the text between <page> and
// </page>, at is its offset in the dump.
bool wiki_batch_page(const struct wiki_batch *batch, size_t *position, struct wiki_slice *xml, uint64_t *at);

#endif
