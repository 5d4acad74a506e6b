// bevatron extract wiki: a Wikipedia dump to JSON Lines.
#include "cli/commands.h"
#include "config/flag.h"
#include "data/extract/wiki_extract.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/pool.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct flag_given given;
    struct string_list input;
    struct string_list namespaces;
    char *output;
    char *templates;
    char *lists;
    int64_t min_text_length;
    int64_t workers;
    bool skip_bad_pages;
    bool json;
};

#define OFFSET(member) offsetof(struct options, member)

static const char *const template_choices[] = {"drop", "expand", NULL};
static const char *const list_choices[] = {"keep", "drop", NULL};

static const struct flag rows[] = {
    {.name = "Input", .type = FLAG_GROUP},
    {.name = "--input",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(input),
     .value_name = "FILE…",
     .required = true,
     .repeats_add = true,
     .help =
         "pages-articles dumps, XML, plain or compressed (.bz2 with or without multistream, .gz, .xz, .zst, told by "
         "content); patterns are expanded, - is standard input"},
    {.name = "--namespaces",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(namespaces),
     .value_name = "N…",
     .initial = "0",
     .help = "numbers of the namespaces to take; 0 holds the articles"},
    {.name = "--min-text-length",
     .type = FLAG_INT,
     .offset = OFFSET(min_text_length),
     .initial = "0",
     .minimum = 0,
     .maximum = FLAG_ENDLESS,
     .help = "leave out articles with fewer characters of text; empty ones are always left out"},
    {.name = "--skip-bad-pages",
     .type = FLAG_BOOL,
     .offset = OFFSET(skip_bad_pages),
     .help = "count pages without title, id or text and go on; without it the first is an error"},
    {.name = "Text", .type = FLAG_GROUP},
    {.name = "--templates",
     .type = FLAG_CHOICE,
     .offset = OFFSET(templates),
     .initial = "drop",
     .choices = template_choices,
     .help =
         "drop: common inline templates (convert, lang, nowrap, frac, dates, …) become text, others go; expand: the "
         "others are expanded with their definitions in the dump, which is read twice"},
    {.name = "--lists",
     .type = FLAG_CHOICE,
     .offset = OFFSET(lists),
     .initial = "keep",
     .choices = list_choices,
     .help = "what becomes of list items; in sections of references and links they always go"},
    {.name = "Output", .type = FLAG_GROUP},
    {.name = "--output",
     .type = FLAG_STRING,
     .offset = OFFSET(output),
     .value_name = "FILE",
     .required = true,
     .help = "JSON Lines with id, url, title and text; compressed where the name ends in .gz or .zst; - is standard "
             "output"},
    {.name = "--workers",
     .type = FLAG_INT,
     .offset = OFFSET(workers),
     .minimum = 1,
     .maximum = 4096,
     .help = "threads; the output does not depend on it. Without it, all processors"},
    {.name = "--json", .type = FLAG_BOOL, .offset = OFFSET(json), .help = "print the summary as JSON"},
};

static void print_json(FILE *to, const struct wiki_extract_summary *summary) {
    struct buffer text = {0};
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
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_key(&json, numbers[i].key);
        json_int(&json, numbers[i].value);
    }
    json_key(&json, "seconds");
    json_double(&json, summary->seconds);
    json_end_object(&json);
    fprintf(to, "%s\n", buffer_string(&text));
    buffer_free(&text);
}

static void print_summary(FILE *to, const struct options *options, const struct wiki_extract_summary *summary) {
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
    for (int64_t i = 0; i < names->count; i++) {
        if (!number_read_int(names->items[i], &numbers[i]))
            return error_set_code(EXIT_CODE_USAGE,
                                  "--namespaces: \"%s\" is not a number; articles are 0, see the head of the dump",
                                  names->items[i]);
    }
    return 0;
}

static int run(void *context) {
    const struct options *options = context;
    interrupt_watch();
    int64_t *namespaces = memory_alloc(((size_t)options->namespaces.count + 1) * sizeof *namespaces);
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
    free(namespaces);
    return status;
}

static int extract_wiki(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.flags = rows, .count = sizeof rows / sizeof rows[0], .given = OFFSET(given)},
    };
    const struct flag_command command = {
        .name = "extract wiki",
        .argument_flag = "--input",
        .summary = "Turns a Wikipedia or other MediaWiki XML dump into JSON Lines, one object per article.",
        .tables = tables,
        .table_count = 1,
        .epilogue = "Example:\n"
                    "  bevatron extract wiki --input enwiki-latest-pages-articles-multistream.xml.bz2 \\\n"
                    "      --output enwiki.jsonl.zst\n",
    };
    struct options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = run}, argc, argv);
}

static const struct command_part parts[] = {
    {"wiki", "a Wikipedia or other MediaWiki dump to JSON Lines", extract_wiki},
};

int cmd_extract(int argc, char **argv) {
    static const struct command_group group = {.name = "extract",
                                               .usage = "wiki --input DUMP… --output FILE.jsonl [flags]",
                                               .ending = "`bevatron extract wiki --help` explains the flags.",
                                               .parts = parts,
                                               .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
