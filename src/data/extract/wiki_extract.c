// A pipeline of page batches: one thread at a time reads, all convert, one at a time writes, in the order of the dump,
// so the output does not depend on the number of threads. Two batches per thread are in flight. If templates are to be
// expanded, a first run of the same pipeline collects them.
#include "data/extract/wiki_extract.h"
#include "data/extract/codec.h"
#include "data/extract/inputs.h"
#include "data/extract/wiki_dump.h"
#include "data/extract/wiki_template.h"
#include "data/extract/wiki_text.h"
#include "data/pipeline.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN_PROBLEMS = 3 };

// ---- the output ----

// Plain, or compressed if its name ends in .gz or .zst. It appears under its name when it is complete (base/file.h).
// "-" is standard output, plain.
struct output {
    struct file_writer file;
    bool is_stdout;
    int (*pack)(struct buffer *out, const void *bytes, size_t count);  // NULL for plain
    uint64_t written_bytes;
};

static bool ends_with(const char *path, const char *suffix) {
    size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

static bool is_articles(const char *begin, size_t length) {
    static const char first[] = "{\"id\":";
    return length >= sizeof first - 1 && memcmp(begin, first, sizeof first - 1) == 0;
}

static int output_open(struct output *output, const char *path) {
    *output = (struct output){.file.descriptor = -1};
    output->is_stdout = strcmp(path, "-") == 0;
    if (output->is_stdout)
        return 0;
    if (ends_with(path, ".bz2") || ends_with(path, ".xz"))
        return error_set_code(EXIT_CODE_USAGE,
                              "cannot write %s: output is plain, .gz or .zst; choose one of these names", path);
    struct buffer trial = {0};
    if (ends_with(path, ".gz"))
        output->pack = pack_gzip;
    else if (ends_with(path, ".zst"))
        output->pack = pack_zstd;
    // A build without the library must fail now, not after hours of work.
    int status = output->pack ? output->pack(&trial, "", 0) : 0;
    buffer_free(&trial);
    TRY(status);
    // The beginning of a compressed file does not reveal its content.
    TRY(file_check_output(path, "a file of articles", output->pack ? NULL : is_articles));
    TRY(file_make_parent(path));
    return file_create(&output->file, path);
}

// The bytes to write for these plain bytes; may be called by several threads at once.
static int output_pack(const struct output *output, struct buffer *packed, struct buffer *plain) {
    buffer_clear(packed);
    if (output->pack)
        return plain->length ? output->pack(packed, plain->data, plain->length) : 0;
    struct buffer swapped = *packed;
    *packed = *plain;
    *plain = swapped;
    return 0;
}

static int write_stdout(const char *bytes, size_t count) {
    if (file_put(STDOUT_FILENO, bytes, count) < count)
        return error_set("cannot write to standard output: %s; check what reads it", strerror(errno));
    return 0;
}

// Called by one thread at a time, in order.
static int output_write(struct output *output, const struct buffer *packed) {
    output->written_bytes += packed->length;
    if (output->is_stdout)
        return write_stdout(packed->data, packed->length);
    return file_write(&output->file, packed->data, packed->length);
}

static int output_commit(struct output *output) {
    return output->is_stdout ? 0 : file_commit(&output->file);
}

static void output_abort(struct output *output) {
    if (!output->is_stdout)
        file_abort(&output->file);
}

// ---- the run ----

// An item of the pipeline.
struct extract_item {
    struct wiki_batch batch;
    struct buffer json, packed;
    struct wiki_extract_summary counts;  // of this batch
    char *problem;                       // of its first bad page, if bad pages are skipped
    struct buffer templates;             // first run: title, NUL, text, one after another …
    size_t *template_ends;               // … two ends each
    int64_t template_count, template_capacity;
};

// Memory of a thread.
struct worker {
    struct wiki_text converter;
    struct buffer source, title, text;
};

struct extraction {
    const struct wiki_extract_options *options;
    struct wiki_extract_summary *summary;
    struct string_list files;
    struct wiki_pages *pages;
    struct worker *workers;  // (options->workers)
    struct wiki_store *store;
    struct output output;
    struct progress progress;
    double started;
    int problems_shown;
};

// ---- one page ----

static bool is_wanted(const struct wiki_extract_options *options, int64_t namespace) {
    for (int64_t i = 0; i < options->namespace_count; i++)
        if (options->namespaces[i] == namespace)
            return true;
    return false;
}

static int64_t count_characters(const struct buffer *text) {
    int64_t count = 0;
    for (size_t i = 0; i < text->length; i++)
        count += (text->data[i] & 0xC0) != 0x80;
    return count;
}

static void put_json(struct buffer *out, const struct wiki_site *site, int64_t id, const struct worker *worker) {
    char number[24];
    struct json_writer json = {.out = out};
    snprintf(number, sizeof number, "%" PRId64, id);
    char *url = memory_printf("%s?curid=%s", site->url, number);
    json_begin_object(&json);
    json_put_string(&json, "id", number);
    json_put_string(&json, "url", url);
    json_key(&json, "title");
    json_string(&json, worker->title.data, worker->title.length);
    json_key(&json, "text");
    json_string(&json, worker->text.data, worker->text.length);
    json_end_object(&json);
    buffer_append_byte(out, '\n');
    free(url);
}

static void convert_page(struct extraction *run, struct worker *worker, struct extract_item *item,
                         const struct wiki_page *page) {
    buffer_clear(&worker->source);
    buffer_clear(&worker->title);
    buffer_clear(&worker->text);
    wiki_unescape(&worker->source, page->text);
    wiki_unescape(&worker->title, page->title);
    struct wiki_source source = {
        .site = item->batch.site,
        .title = {buffer_string(&worker->title), worker->title.length},
        .text = {buffer_string(&worker->source), worker->source.length},
    };
    wiki_text_convert(&worker->converter, &worker->text, &source);
    if (!worker->text.length || count_characters(&worker->text) < run->options->min_text_length) {
        item->counts.too_short++;
        return;
    }
    item->counts.articles++;
    item->counts.text_bytes += worker->text.length;
    put_json(&item->json, item->batch.site, page->id, worker);
}

// Reads the next page of the batch: 1, 0 after the last, -1 if it is bad and bad pages are not skipped. A skipped page
// has no text.
static int next_page(struct extraction *run, struct extract_item *item, size_t *position, struct wiki_page *page) {
    struct wiki_slice xml;
    uint64_t at;
    const char *problem;
    if (!wiki_batch_page(&item->batch, position, &xml, &at))
        return 0;
    item->counts.pages++;
    if (wiki_page_parse(page, item->batch.site, xml, &problem) == 0)
        return 1;
    *page = (struct wiki_page){.namespace = INT64_MIN};
    if (!run->options->skip_bad_pages)
        return bad_data("%s: the page at byte %" PRIu64
                        " of the XML is bad: %s; download the dump again, or use --skip-bad-pages",
                        item->batch.path, at, problem);
    item->counts.bad_pages++;
    if (!item->problem)
        item->problem = memory_printf("%s: the page at byte %" PRIu64 " of the XML: %s", item->batch.path, at, problem);
    return 1;
}

// ---- the steps of the pipeline ----

static int read_batch(void *context, void *argument) {
    struct extraction *run = context;
    struct extract_item *item = argument;
    return wiki_pages_next(run->pages, &item->batch);
}

static void begin_item(struct extract_item *item) {
    item->counts = (struct wiki_extract_summary){0};
    free(item->problem);
    item->problem = NULL;
    buffer_clear(&item->json);
    buffer_clear(&item->templates);
    item->template_count = 0;
}

static int convert_batch(void *context, void *argument, int thread) {
    struct extraction *run = context;
    struct extract_item *item = argument;
    struct wiki_page page;
    size_t position = 0;
    int status;
    begin_item(item);
    while ((status = next_page(run, item, &position, &page)) > 0) {
        if (page.namespace == INT64_MIN)
            continue;
        if (!is_wanted(run->options, page.namespace))
            item->counts.other_namespaces++;
        else if (page.is_redirect)
            item->counts.redirects++;
        else if (!page.is_wikitext)
            item->counts.not_wikitext++;
        else
            convert_page(run, &run->workers[thread], item, &page);
    }
    TRY(status);
    return output_pack(&run->output, &item->packed, &item->json);
}

static void show_progress(struct extraction *run, uint64_t input_bytes) {
    char note[96];
    double seconds = clock_seconds() - run->started;
    snprintf(note, sizeof note, "%" PRId64 " articles, %.1f MB/s of XML", run->summary->articles,
             (double)run->summary->xml_bytes / 1e6 / seconds);
    progress_update(&run->progress, (double)input_bytes / 1e6, note);
}

static int write_batch(void *context, void *argument) {
    struct extraction *run = context;
    struct extract_item *item = argument;
    struct wiki_extract_summary *total = run->summary, *counts = &item->counts;
    TRY(output_write(&run->output, &item->packed));
    total->pages += counts->pages;
    total->articles += counts->articles;
    total->redirects += counts->redirects;
    total->other_namespaces += counts->other_namespaces;
    total->not_wikitext += counts->not_wikitext;
    total->too_short += counts->too_short;
    total->bad_pages += counts->bad_pages;
    total->text_bytes += counts->text_bytes;
    total->xml_bytes += item->batch.xml.length;
    if (item->problem && run->problems_shown++ < SHOWN_PROBLEMS)
        log_warn("skipped %s", item->problem);
    show_progress(run, item->batch.input_bytes);
    return 0;
}

// ---- the first run: templates ----

static void keep_template(struct extract_item *item, const struct wiki_page *page) {
    if (item->template_count == item->template_capacity) {
        item->template_capacity = item->template_capacity ? 2 * item->template_capacity : 64;
        size_t bytes = 2 * (size_t)item->template_capacity * sizeof *item->template_ends;
        item->template_ends = memory_realloc(item->template_ends, bytes);
    }
    const char *colon = memchr(page->title.data, ':', page->title.length);
    struct wiki_slice name = page->title;
    if (colon)
        name = (struct wiki_slice){colon + 1, page->title.length - (size_t)(colon + 1 - page->title.data)};
    wiki_unescape(&item->templates, name);
    item->template_ends[2 * item->template_count] = item->templates.length;
    wiki_unescape(&item->templates, page->text);
    item->template_ends[2 * item->template_count + 1] = item->templates.length;
    item->template_count++;
}

static int collect_batch(void *context, void *argument, int thread) {
    struct extraction *run = context;
    struct extract_item *item = argument;
    struct wiki_page page;
    size_t position = 0;
    int status;
    (void)thread;
    begin_item(item);
    while ((status = next_page(run, item, &position, &page)) > 0)
        if (page.namespace == WIKI_NAMESPACE_TEMPLATE && page.is_wikitext)
            keep_template(item, &page);
    return status;
}

static int store_batch(void *context, void *argument) {
    struct extraction *run = context;
    struct extract_item *item = argument;
    size_t begin = 0;
    for (int64_t i = 0; i < item->template_count; i++) {
        size_t middle = item->template_ends[2 * i], end = item->template_ends[2 * i + 1];
        const char *data = item->templates.data;
        wiki_store_add(run->store, (struct wiki_slice){data + begin, middle - begin},
                       (struct wiki_slice){data + middle, end - middle});
        begin = end;
    }
    progress_update(&run->progress, (double)item->batch.input_bytes / 1e6, NULL);
    return 0;
}

// ---- beginning and end ----

static void free_item(void *argument) {
    struct extract_item *item = argument;
    buffer_free(&item->batch.xml);
    buffer_free(&item->json);
    buffer_free(&item->packed);
    buffer_free(&item->templates);
    free(item->template_ends);
    free(item->problem);
}

static int run_pipeline(struct extraction *run, struct pipeline *pipeline) {
    const struct wiki_pages_options pages = {
        .paths = (const char *const *)run->files.items,
        .path_count = run->files.count,
        .threads = run->options->workers,
    };
    pipeline->threads = run->options->workers;
    pipeline->context = run;
    pipeline->produce = read_batch;
    pipeline->item_bytes = sizeof(struct extract_item);
    pipeline->free_item = free_item;
    wiki_pages_open(&run->pages, &pages);
    int status = pipeline_run(pipeline);
    wiki_pages_close(run->pages);
    return status;
}

static bool is_readable_once(const char *path) {
    struct stat status;
    return strcmp(path, "-") == 0 || (stat(path, &status) == 0 && !S_ISREG(status.st_mode));
}

static int collect_templates(struct extraction *run) {
    for (int64_t i = 0; i < run->files.count; i++)
        if (is_readable_once(run->files.items[i]))
            return error_set_code(EXIT_CODE_USAGE,
                                  "--templates expand reads the dump twice, but %s can be read only once; name a file",
                                  strcmp(run->files.items[i], "-") == 0 ? "standard input" : run->files.items[i]);
    run->store = wiki_store_create();
    progress_begin(&run->progress, "reading templates", "MB", (double)inputs_bytes(&run->files) / 1e6);
    struct pipeline pipeline = {.work = collect_batch, .consume = store_batch};
    TRY(run_pipeline(run, &pipeline));
    progress_end(&run->progress, NULL);
    run->summary->templates = wiki_store_count(run->store);
    if (!run->summary->templates)
        log_warn(
            "the dump defines no templates (pages of namespace 10); only those known to this program are rendered");
    return 0;
}

static int convert_all(struct extraction *run) {
    const struct wiki_extract_options *options = run->options;
    struct wiki_text_options text = {.drop_lists = options->drop_lists, .templates = run->store};
    for (int i = 0; i < options->workers; i++)
        wiki_text_init(&run->workers[i].converter, &text);
    progress_begin(&run->progress, "extracting", "MB", (double)inputs_bytes(&run->files) / 1e6);
    struct pipeline pipeline = {.work = convert_batch, .consume = write_batch};
    TRY(run_pipeline(run, &pipeline));
    progress_end(&run->progress, NULL);
    if (!run->summary->articles)
        return bad_data("no article in %" PRId64 " pages: check --namespaces and --min-text-length",
                        run->summary->pages);
    return output_commit(&run->output);
}

static int prepare(struct extraction *run) {
    TRY(inputs_expand(&run->files, &run->options->inputs));
    TRY(output_open(&run->output, run->options->output));
    return run->options->expand_templates ? collect_templates(run) : 0;
}

int wiki_extract(const struct wiki_extract_options *options, struct wiki_extract_summary *summary) {
    *summary = (struct wiki_extract_summary){0};
    struct extraction run = {.options = options, .summary = summary, .started = clock_seconds()};
    run.workers = memory_alloc((size_t)options->workers * sizeof *run.workers);
    int status = prepare(&run);
    if (status == 0)
        status = convert_all(&run);
    if (status < 0)
        output_abort(&run.output);
    for (int i = 0; i < options->workers; i++) {
        wiki_text_free(&run.workers[i].converter);
        buffer_free(&run.workers[i].source);
        buffer_free(&run.workers[i].title);
        buffer_free(&run.workers[i].text);
    }
    free(run.workers);
    wiki_store_free(run.store);
    string_list_free(&run.files);
    summary->output_bytes = run.output.written_bytes;
    summary->seconds = clock_seconds() - run.started;
    return status;
}
