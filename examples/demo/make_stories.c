// Writes the demo's corpus: short children's stories from the grammar in stories.txt, as JSON Lines ({"text": …}) on
// stdout. The output depends on the grammar and the seed alone, and a longer one begins with the shorter one.
#include "grammar.h"
#include "story.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct story_options {
    const char *grammar;
    uint64_t bytes;    // stop once this much was written
    uint64_t stories;  // or after this many stories
    uint64_t seed;
    bool is_plain;
};

static void print_usage(FILE *file) {
    fprintf(file, "usage: make_stories [--megabytes N] [--stories N] [--seed N] [--grammar FILE] [--plain]\n"
                  "Writes stories as JSON Lines, or as plain text with --plain, to standard output.\n"
                  "  --megabytes N   stop after N MB (default 4)\n"
                  "  --stories N     stop after N stories\n"
                  "  --seed N        another seed, other stories (default 1)\n"
                  "  --grammar FILE  where the stories come from (default examples/demo/stories.txt)\n");
}

static int parse_number(const char *flag, const char *text, uint64_t *value) {
    char *end;
    errno = 0;
    unsigned long long number = text ? strtoull(text, &end, 10) : 0;
    if (!text || text[0] < '0' || text[0] > '9' || *end || errno || number > 1000000000) {
        fprintf(stderr, "make_stories: %s takes a number from 0 to 1000000000\n", flag);
        return -1;
    }
    *value = number;
    return 0;
}

// 0 to go on, 1 where help was asked for, -1 if an argument is wrong.
static int parse_options(struct story_options *options, int argc, char **argv) {
    *options = (struct story_options){
        .grammar = "examples/demo/stories.txt", .bytes = 4000000, .stories = UINT64_MAX, .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(flag, "--help") == 0)
            return 1;
        if (strcmp(flag, "--plain") == 0) {
            options->is_plain = true;
            continue;
        }
        int result = -1;
        if (strcmp(flag, "--megabytes") == 0) {
            result = parse_number(flag, value, &options->bytes);
            options->bytes *= 1000000;
        } else if (strcmp(flag, "--stories") == 0) {
            result = parse_number(flag, value, &options->stories);
            options->bytes = UINT64_MAX;
        } else if (strcmp(flag, "--seed") == 0) {
            result = parse_number(flag, value, &options->seed);
        } else if (strcmp(flag, "--grammar") == 0 && value) {
            options->grammar = value;
            result = 0;
        } else {
            fprintf(stderr, "make_stories: %s is unknown or lacks its value\n", flag);
        }
        if (result)
            return -1;
        i++;
    }
    return 0;
}

// The stories are ASCII; a byte that JSON cannot hold as it is can only be a quote, a backslash or a newline.
static void add_json(struct story_text *line, const struct story_text *story) {
    text_add(line, "{\"text\": \"", 10);
    for (size_t i = 0; i < story->length; i++) {
        char c = story->data[i];
        if (c == '\n')
            text_add(line, "\\n", 2);
        else if (c == '"' || c == '\\')
            text_add(line, (char[]){'\\', c}, 2);
        else
            text_add(line, &c, 1);
    }
    text_add(line, "\"}\n", 3);
}

static int write_stories(const struct story_options *options, const struct grammar *grammar) {
    struct story_text story = {0}, line = {0};
    uint64_t written = 0;
    int result = 0;
    for (uint64_t number = 0; result == 0 && number < options->stories && written < options->bytes; number++) {
        result = story_tell(grammar, options->seed, number, &story);
        if (result)
            break;
        line.length = 0;
        if (options->is_plain) {
            text_add(&line, story.data, story.length);
            text_add(&line, "\n\n", 2);
        } else {
            add_json(&line, &story);
        }
        if (fwrite(line.data, 1, line.length, stdout) != line.length)
            result = -1;
        written += line.length;
    }
    if (fflush(stdout) || result) {
        fprintf(stderr, "make_stories: the stories were not written to the end\n");
        result = -1;
    }
    text_free(&story);
    text_free(&line);
    return result;
}

int main(int argc, char **argv) {
    struct story_options options;
    int parsed = parse_options(&options, argc, argv);
    if (parsed) {
        print_usage(parsed > 0 ? stdout : stderr);
        return parsed > 0 ? 0 : 2;
    }
    struct grammar grammar = {0};
    int result = grammar_read(&grammar, options.grammar);
    if (result == 0)
        result = write_stories(&options, &grammar);
    grammar_free(&grammar);
    return result ? 1 : 0;
}
