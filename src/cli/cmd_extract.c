// bevatron extract wiki: a Wikipedia dump to JSON Lines.
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "data/extract/wiki_extract.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/pool.h"
#include "net/remote.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct extract_options {
    struct flag_given given;
    struct string_list input;
    struct string_list namespaces;
    char *endpoint_url;
    char *output;
    char *templates;
    char *lists;
    int64_t min_text_length;
    int64_t workers;
    bool skip_bad_pages;
    bool json;
};

#define FLAG_STRUCT struct extract_options

static const char *const template_choices[] = {"drop", "expand", NULL};
static const char *const list_choices[] = {"keep", "drop", NULL};

static const struct flag rows[] = {
    GROUP("Input"),
    LIST("--input", input, "FILE…",
         "pages-articles XML dumps, plain or compressed (.bz2 with or without multistream, .gz, .xz, .zst, detected by "
         "content); patterns are expanded, - is standard input; s3:// and https:// are streamed",
         .required = true, .repeats_add = true),
    TEXT("--endpoint-url", endpoint_url, NULL, "URL", ENDPOINT_URL_HELP),
    LIST("--namespaces", namespaces, "N…", "namespaces to extract; 0 holds the articles", .initial = "0"),
    INT("--min-text-length", min_text_length, "0", 0, FLAG_ENDLESS,
        "skip articles with fewer characters of text; empty ones are always skipped"),
    SWITCH("--skip-bad-pages", skip_bad_pages,
           "count and skip pages without title, id or text; default: the first one is an error"),
    GROUP("Text"),
    CHOICE("--templates", templates, "drop", template_choices,
           "drop: common inline templates (convert, lang, nowrap, frac, dates, …) become text, others are removed; "
           "expand: also expand the others from their definitions in the dump, which is read twice"),
    CHOICE("--lists", lists, "keep", list_choices,
           "what to do with list items; those in sections of references and links are always removed"),
    GROUP("Output"),
    TEXT("--output", output, NULL, "FILE",
         "JSON Lines file with id, url, title and text; compressed if the name ends in .gz or .zst; - is standard "
         "output",
         .required = true),
    INT("--workers", workers, NULL, 1, 4096, "threads; does not change the output. Default: all CPUs"),
    SWITCH("--json", json, "print the summary as JSON"),
};

static void print_json(FILE *to, const struct wiki_extract_summary *summary) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text};
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"pages", summary->pages},
        {"articles", summary->articles},
        {"redirects", summary->redirects},
        {"other_namespaces", summary->other_namespaces},
        {"not_wikitext", summary->not_wikitext},
        {"too_short", summary->too_short},
        {"bad_pages", summary->bad_pages},
        {"templates", summary->templates},
        {"xml_bytes", (int64_t)summary->xml_bytes},
        {"text_bytes", (int64_t)summary->text_bytes},
        {"output_bytes", (int64_t)summary->output_bytes},
    };
    json_begin_object(&json);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_put_int(&json, numbers[i].key, numbers[i].value);
    json_put_double(&json, "seconds", summary->seconds);
    json_end_object(&json);
    fprintf(to, "%s\n", buffer_string(&text));
}

static void print_summary(FILE *to, const struct extract_options *options, const struct wiki_extract_summary *summary) {
    if (strcmp(options->output, "-") != 0)
        fprintf(to, "wrote %s\n", options->output);
    fprintf(to,
            "%" PRId64 " articles of %" PRId64 " pages, %.1f MB of text from %.1f MB of XML in %.1f s (%.1f MB/s)\n",
            summary->articles, summary->pages, (double)summary->text_bytes / 1e6, (double)summary->xml_bytes / 1e6,
            summary->seconds, (double)summary->xml_bytes / 1e6 / summary->seconds);
    fprintf(to,
            "left out: %" PRId64 " redirects, %" PRId64 " of other namespaces, %" PRId64 " too short, %" PRId64
            " not wikitext\n",
            summary->redirects, summary->other_namespaces, summary->too_short, summary->not_wikitext);
    if (summary->templates)
        fprintf(to, "%" PRId64 " templates loaded\n", summary->templates);
    if (summary->bad_pages)
        fprintf(to, "%" PRId64 " bad pages skipped\n", summary->bad_pages);
}

static int read_namespaces(const struct string_list *names, int64_t *numbers) {
    for (int64_t i = 0; i < names->count; i++)
        if (!number_read_int(names->items[i], &numbers[i]))
            return error_set_code(
                EXIT_CODE_USAGE,
                "--namespaces: \"%s\" is not a number; 0 is articles, and the start of the dump lists the others",
                names->items[i]);
    return 0;
}

static int run_extraction(void *context) {
    const struct extract_options *options = context;
    interrupt_watch();
    remote_set_endpoint(options->endpoint_url);
    OWNED int64_t *namespaces = memory_alloc(((size_t)options->namespaces.count + 1) * sizeof *namespaces);
    struct wiki_extract_options work = {
        .inputs = options->input,
        .output = options->output,
        .namespaces = namespaces,
        .namespace_count = options->namespaces.count,
        .min_text_length = options->min_text_length,
        .expand_templates = strcmp(options->templates, "expand") == 0,
        .drop_lists = strcmp(options->lists, "drop") == 0,
        .skip_bad_pages = options->skip_bad_pages,
        .workers = options->workers ? (int)options->workers : pool_available_processors(),
    };
    struct wiki_extract_summary summary;
    int status = read_namespaces(&options->namespaces, namespaces);
    if (status == 0)
        status = wiki_extract(&work, &summary);
    // If the articles go to standard output, the summary must not.
    FILE *to = strcmp(options->output, "-") == 0 ? stderr : stdout;
    if (status == 0 && options->json)
        print_json(to, &summary);
    else if (status == 0)
        print_summary(to, options, &summary);
    return status;
}

const struct command cmd_extract_wiki = {
    .flags = {.name = "extract wiki",
              .argument_flag = "--input",
              .summary = "Turns a Wikipedia or other MediaWiki XML dump into JSON Lines, one object per article.",
              .epilogue = "Example:\n"
                          "  bevatron extract wiki --input enwiki-latest-pages-articles-multistream.xml.bz2 \\\n"
                          "      --output enwiki.jsonl.zst\n"},
    .tables = {{FLAG_TABLE(rows)}},
    .options_bytes = sizeof(struct extract_options),
    .run = run_extraction,
};
