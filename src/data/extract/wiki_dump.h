// The XML of a MediaWiki dump: the site's properties from its header, and the fields of one <page>. Dumps are written
// by a program, one element after another, and their text never contains a raw '<', so finding tags is enough. Only the
// five entities of XML and numeric ones are resolved, so no declaration in a hostile file can expand.
#ifndef DATA_EXTRACT_WIKI_DUMP_H
#define DATA_EXTRACT_WIKI_DUMP_H

#include "data/extract/wiki_slice.h"

enum {
    WIKI_NAMESPACE_FILE = 6,
    WIKI_NAMESPACE_TEMPLATE = 10,
    WIKI_NAMESPACE_CATEGORY = 14,
};

struct wiki_namespace {
    int64_t key;
    char *name;
};

// Created once per file, then read-only: threads share it.
struct wiki_site {
    char *url;       // "https://en.wikipedia.org/wiki", "" if the header does not say
    char *language;  // "en", "" if unknown
    struct wiki_namespace *namespaces;
    int64_t namespace_count;
};

// Parses everything before the first <page>. Missing fields get the English names and an empty address.
void wiki_site_parse(struct wiki_site *site, struct wiki_slice header);
void wiki_site_free(struct wiki_site *site);
// The number of the namespace with this name, in the language of the site or in English; false if there is none.
bool wiki_site_namespace(const struct wiki_site *site, struct wiki_slice name, int64_t *key);

struct wiki_page {
    struct wiki_slice title, text;  // as in the file, with entities; text is that of the last revision
    int64_t id, namespace;
    bool is_redirect;
    bool is_wikitext;  // not a script, a style sheet or JSON
};

// xml is the text between "<page>" and "</page>". -1, with *problem, if it has no title, id or text.
int wiki_page_parse(struct wiki_page *page, const struct wiki_site *site, struct wiki_slice xml, const char **problem);

// Appends the text with the entities of XML resolved.
void wiki_unescape(struct buffer *out, struct wiki_slice xml);

// ---- pages for threads ----

// Whole pages from one or several dumps, in batches of about a megabyte for threads to work on. One thread reads. A
// dump that ends before its closing tag is an error.

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
