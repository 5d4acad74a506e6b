// bevatron extract wiki: converts dumps to JSON Lines on all cores, in the order of the dump, in bounded memory.
#ifndef DATA_EXTRACT_WIKI_EXTRACT_H
#define DATA_EXTRACT_WIKI_EXTRACT_H

#include "config/flag.h"
#include <stdbool.h>
#include <stdint.h>

struct wiki_extract_options {
    struct string_list inputs;  // dumps: names and patterns, "-" is standard input
    const char *output;         // plain, or compressed if it ends in .gz or .zst; "-" is standard output
    const int64_t *namespaces;  // (namespace_count) to extract
    int64_t namespace_count;
    int64_t min_text_length;  // in characters
    bool expand_templates;    // with the definitions in the dump, which is then read twice
    bool drop_lists;
    bool skip_bad_pages;
    int workers;
};

struct wiki_extract_summary {
    int64_t pages, articles;                                                  // read, written
    int64_t redirects, other_namespaces, not_wikitext, too_short, bad_pages;  // left out
    int64_t templates;                                                        // loaded for expansion
    uint64_t xml_bytes, text_bytes, output_bytes;
    double seconds;
};

int wiki_extract(const struct wiki_extract_options *options, struct wiki_extract_summary *summary);

#endif
