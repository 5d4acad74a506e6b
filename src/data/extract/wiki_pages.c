// Reads on until there is a </page> to cut at; the rest is kept for the next batch. Every byte is searched once.
#include "data/extract/wiki_dump.h"
#include "data/extract/reader.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>

enum { DEFAULT_BATCH = 1 << 20, DEFAULT_LIMIT = 1 << 30, HEADER_LIMIT = 1 << 24, READ_BYTES = 1 << 18 };

static const char page_open[] = "<page>", page_close[] = "</page>", dump_open[] = "<mediawiki",
                  dump_close[] = "</mediawiki>";

struct wiki_pages {
    struct wiki_pages_options options;
    struct wiki_site *sites;  // (path_count) of the dumps opened so far
    int64_t next_path;
    struct reader *reader;    // of the current dump, NULL between two
    bool has_root;            // it begins with <mediawiki …>, so it must end with </mediawiki>
    struct buffer tail;       // read, but not delivered yet
    uint64_t offset;          // of tail in the decompressed dump
    uint64_t finished_bytes;  // of the previous dumps, on disk
};

void wiki_pages_open(struct wiki_pages **pages, const struct wiki_pages_options *options) {
    *pages = memory_alloc(sizeof **pages);
    (*pages)->options = *options;
    if (!options->batch_bytes)
        (*pages)->options.batch_bytes = DEFAULT_BATCH;
    if (!options->page_limit)
        (*pages)->options.page_limit = DEFAULT_LIMIT;
    (*pages)->sites = memory_alloc((size_t)options->path_count * sizeof *(*pages)->sites);
}

void wiki_pages_close(struct wiki_pages *pages) {
    if (!pages)
        return;
    reader_close(pages->reader);
    for (int64_t i = 0; i < pages->options.path_count; i++)
        wiki_site_free(&pages->sites[i]);
    free(pages->sites);
    buffer_free(&pages->tail);
    free(pages);
}

static const char *find(const struct buffer *text, size_t from, const char *string) {
    return text->length > from ? memmem(text->data + from, text->length - from, string, strlen(string)) : NULL;
}

static const char *path_of(const struct wiki_pages *pages) {
    const char *path = pages->options.paths[pages->next_path - 1];
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

// Appends more bytes of the dump: 1, 0 at its end, -1 on error.
static int read_more(struct wiki_pages *pages, struct buffer *text) {
    buffer_reserve(text, READ_BYTES);
    int64_t got = reader_read(pages->reader, text->data + text->length, READ_BYTES);
    if (got < 0)
        return -1;
    text->length += (size_t)got;
    text->data[text->length] = '\0';
    return got > 0;
}

// Opens the next dump and reads up to its first page, which is kept in the tail.
static int begin_dump(struct wiki_pages *pages) {
    struct wiki_site *site = &pages->sites[pages->next_path];
    TRY(reader_open_threads(&pages->reader, pages->options.paths[pages->next_path++], pages->options.threads));
    struct buffer *tail = &pages->tail;
    buffer_clear(tail);
    pages->offset = 0;
    const char *first = NULL;
    size_t searched = 0;
    int more = 1;
    while (!first && more && tail->length < HEADER_LIMIT) {
        more = read_more(pages, tail);
        TRY(more);
        first = find(tail, searched, page_open);
        searched = tail->length > strlen(page_open) ? tail->length - strlen(page_open) : 0;
    }
    pages->has_root = find(tail, 0, dump_open) != NULL;
    if (!first && !pages->has_root) {
        bad_data("%s is not a wiki dump: found no <mediawiki> and no <page>; use a pages-articles XML dump",
                 path_of(pages));
        return reader_blame_damage(pages->options.paths[pages->next_path - 1], reader_format(pages->reader));
    }
    size_t header = first ? (size_t)(first - tail->data) : tail->length;
    wiki_site_parse(site, (struct wiki_slice){tail->data, header});
    return 0;
}

// The position after the last "</page>" from `from` on, 0 if there is none. Text contains no raw '<', so candidates are
// few.
static size_t after_last_page(const struct buffer *text, size_t from) {
    size_t end = text->length;
    const char *tag;
    while (end > from && (tag = memrchr(text->data + from, '<', end - from))) {
        size_t at = (size_t)(tag - text->data);
        if (text->length - at >= strlen(page_close) && memcmp(tag, page_close, strlen(page_close)) == 0)
            return at + strlen(page_close);
        end = at;
    }
    return 0;
}

// Keeps everything after `cut` for the next batch.
static void cut_batch(struct wiki_pages *pages, struct wiki_batch *batch, size_t cut) {
    buffer_clear(&pages->tail);
    buffer_append(&pages->tail, batch->xml.data + cut, batch->xml.length - cut);
    batch->offset = pages->offset;
    pages->offset += cut;
    batch->xml.length = cut;
    batch->xml.data[cut] = '\0';
    batch->site = &pages->sites[pages->next_path - 1];
    batch->path = path_of(pages);
    batch->input_bytes = pages->finished_bytes + reader_input_bytes(pages->reader);
}

// The dump has ended: only its closing tag may be left.
static int end_dump(struct wiki_pages *pages, const struct buffer *rest) {
    uint64_t end = pages->offset + rest->length;
    if (find(rest, 0, page_open))
        return bad_data("%s is truncated: it ends inside a page, at byte %" PRIu64
                        " of its XML; copy or download it again",
                        path_of(pages), end);
    if (pages->has_root && !find(rest, 0, dump_close))
        return bad_data("%s is truncated: it ends without </mediawiki>, at byte %" PRIu64
                        " of its XML; copy or download it again",
                        path_of(pages), end);
    pages->finished_bytes += reader_input_bytes(pages->reader);
    reader_close(pages->reader);
    pages->reader = NULL;
    return 0;
}

// Fills the batch from the current dump: 1, or 0 if it has no further page.
static int fill_batch(struct wiki_pages *pages, struct wiki_batch *batch) {
    struct buffer swapped = batch->xml;
    batch->xml = pages->tail;
    pages->tail = swapped;
    size_t searched = 0;
    for (;;) {
        int more;
        do {
            more = read_more(pages, &batch->xml);
            TRY(more);
        } while (more && batch->xml.length < searched + pages->options.batch_bytes);
        size_t cut = after_last_page(&batch->xml, searched);
        if (cut) {
            cut_batch(pages, batch, cut);
            return 1;
        }
        if (!more) {
            TRY(end_dump(pages, &batch->xml));
            return 0;
        }
        if (batch->xml.length > pages->options.page_limit)
            return bad_data("%s: the page at byte %" PRIu64 " of the XML is longer than %zu bytes; a dump of current "
                            "revisions (pages-articles) has no such page",
                            path_of(pages), pages->offset, pages->options.page_limit);
        searched = batch->xml.length > strlen(page_close) ? batch->xml.length - strlen(page_close) : 0;
    }
}

int wiki_pages_next(struct wiki_pages *pages, struct wiki_batch *batch) {
    for (;;) {
        if (!pages->reader) {
            if (pages->next_path == pages->options.path_count)
                return 0;
            TRY(begin_dump(pages));
        }
        int status = fill_batch(pages, batch);
        if (status != 0)
            return status;
    }
}

bool wiki_batch_page(const struct wiki_batch *batch, size_t *position, struct wiki_slice *xml, uint64_t *at) {
    const char *open = find(&batch->xml, *position, page_open);
    if (!open)
        return false;
    size_t begin = (size_t)(open - batch->xml.data) + strlen(page_open);
    const char *close = find(&batch->xml, begin, page_close);
    if (!close)
        return false;
    *xml = (struct wiki_slice){batch->xml.data + begin, (size_t)(close - batch->xml.data) - begin};
    *at = batch->offset + begin - strlen(page_open);
    *position = (size_t)(close - batch->xml.data) + strlen(page_close);
    return true;
}
