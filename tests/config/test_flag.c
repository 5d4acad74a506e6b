// The flag engine on a small command: every type, both ways to write a value, ranges, aliases, known names,
// suggestions, positional arguments, --help.
#include "test.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/flag.h"
#include "words.h"
#include <stddef.h>

struct inner {
    struct flag_given given;
    int64_t layers;
    double rate;
};

struct options {
    struct flag_given given;
    struct inner inner;
    bool on, off;
    int64_t count;
    double ratio;
    char *text;
    char *color;
    enum shape { SHAPE_ROUND, SHAPE_SQUARE, SHAPE_UNSET } shape;
    struct string_list names, inputs, files;
};

static const char *const colors[] = {"red", "Green", "blue", NULL};
static const struct flag_value shapes[] = {
    {"round", SHAPE_ROUND}, {"Square", SHAPE_SQUARE}, {"quadratic", SHAPE_SQUARE}, {0}};
static const struct flag_refusal other_colors[] = {{.name = "azure", .reason = "it is a kind of blue"}, {0}};

#define AT(field) offsetof(struct options, field)
static const struct flag flags[] = {
    {.name = "Things", .type = FLAG_GROUP},
    {.name = "--on", .type = FLAG_BOOL, .uses = 1, .offset = AT(on), .help = "switch"},
    {.name = "--no-off", .type = FLAG_BOOL_OFF, .offset = AT(off), .initial = "true", .help = "switch off"},
    {.name = "--count",
     .type = FLAG_INT,
     .offset = AT(count),
     .initial = "3",
     .minimum = 1,
     .maximum = 10,
     .help = "a count"},
    {.name = "--ratio",
     .type = FLAG_DOUBLE,
     .offset = AT(ratio),
     .minimum = 0,
     .maximum = 1,
     .bounds = FLAG_BELOW_MAXIMUM,
     .help = "a ratio"},
    {.name = "Texts", .type = FLAG_GROUP, .help = "Words of several kinds"},
    {.name = "--text",
     .type = FLAG_STRING,
     .uses = 1,
     .offset = AT(text),
     .value_name = "WORD",
     .help = "a text | with a bar"},
    {.name = "--color",
     .type = FLAG_CHOICE,
     .uses = 1,
     .offset = AT(color),
     .initial = "red",
     .choices = colors,
     .refusals = other_colors,
     .help = "color"},
    {.name = "--shape",
     .type = FLAG_ENUM,
     .offset = AT(shape),
     .values = shapes,
     .unset = SHAPE_UNSET,
     .advanced = true,
     .help = "shape"},
    {.name = "--names", .type = FLAG_STRING_LIST, .offset = AT(names), .initial = "a b", .help = "names"},
    {.name = "--inputs",
     .type = FLAG_STRING_LIST,
     .offset = AT(inputs),
     .repeats_add = true,
     .advanced = true,
     .help = "inputs"},
};
static const struct flag inner_flags[] = {
    {.name = "--num-layers",
     .type = FLAG_INT,
     .offset = offsetof(struct inner, layers),
     .required = true,
     .help = "layers"},
    {.name = "--rate",
     .type = FLAG_DOUBLE,
     .offset = offsetof(struct inner, rate),
     .initial = "1e-4",
     .maximum = 1e6,
     .bounds = FLAG_ABOVE_MINIMUM,
     .help = "rate"},
};
static const struct flag_alias aliases[] = {
    {"--number", "--count", NULL, "is the old name of --count"},
    {"--everything", "--on", "true", NULL},
    {"--everything", "--color", "blue", NULL},
    {0},
};
static const struct flag_names names[] = {
    {"--ignored-switch --ignored-value= --ignored-list=*", "has no meaning here", false},
    {"--refused-switch --refused-value=1 --refused-word=auto --refused-plain=", "is not implemented", true},
};
static const struct flag_table tables[] = {
    {.rows = {flags, sizeof flags / sizeof flags[0], NULL},
     .given = AT(given),
     .aliases = aliases,
     .names = names,
     .names_count = 2},
    {.rows = {inner_flags, 2, NULL}, .base = AT(inner), .given = offsetof(struct inner, given)},
};
static const struct flag_command command = {.name = "try",
                                            .summary = "Tries things.",
                                            .tables = tables,
                                            .table_count = 2,
                                            .positional_name = "FILE…",
                                            .positional_maximum = 2,
                                            .positional_offset = AT(files),
                                            .epilogue = "That is all."};

static struct options options;

// Parses words separated by spaces; adds the required flag.
static int parse(const char *line) {
    flags_free(&command, &options);
    struct string_list words = {0};
    char *copy = memory_printf("try %s --num-layers 2", line);
    split_words(&words, copy);
    int status = flags_parse(&command, &options, (int)words.count, words.items);
    string_list_free(&words);
    free(copy);
    return status;
}

TEST(defaults) {
    EXPECT_OK(parse(""));
    EXPECT(!options.on && options.off);
    EXPECT_INT(options.count, 3);
    EXPECT(options.ratio == 0 && options.inner.rate == 1e-4);
    EXPECT(options.text == NULL);
    EXPECT_STRING(options.color, "red");
    EXPECT(options.shape == SHAPE_UNSET);
    EXPECT_INT(options.names.count, 2);
    EXPECT_STRING(options.names.items[1], "b");
    EXPECT(!flag_is_given(&options.given, "--count") && !flag_is_given(&options.inner.given, "--rate"));
    EXPECT(flag_is_given(&options.inner.given, "num_layers"));
}

TEST(values) {
    EXPECT_OK(
        parse("--on --no-off --count 7 --ratio .5 --text x=y --color=green --shape square --names p q -1 --rate=2e-3"));
    EXPECT(options.on && !options.off);
    EXPECT_INT(options.count, 7);
    EXPECT(options.ratio == 0.5 && options.inner.rate == 2e-3);
    EXPECT_STRING(options.text, "x=y");
    EXPECT_STRING(options.color, "Green");
    EXPECT(options.shape == SHAPE_SQUARE);
    EXPECT_INT(options.names.count, 3);
    EXPECT_STRING(options.names.items[2], "-1");
    EXPECT(flag_is_given(&options.given, "--count") && flag_source(&options.given, "text") == FLAG_FROM_COMMAND);
    EXPECT_OK(parse("--text=--dashes --on=false --no-off=false --count=+4 --text=--last"));
    EXPECT_STRING(options.text, "--last");
    EXPECT(!options.on && options.off);
    EXPECT_INT(options.count, 4);
    EXPECT_OK(parse("--text= --num_layers 5"));
    EXPECT_STRING(options.text, "");
    EXPECT_OK(parse("--inputs a b --inputs c"));
    EXPECT_INT(options.inputs.count, 3);
    EXPECT_OK(parse("--names a b --names c"));
    EXPECT_INT(options.names.count, 1);
}

// An underscore between two digits, as in Python's int() and float(); the left column is what Python 3 accepts.
TEST(underscores) {
    EXPECT_OK(parse("--count 1_0 --ratio 0.000_5 --rate 1_000.5"));
    EXPECT_INT(options.count, 10);
    EXPECT(options.ratio == 0.0005 && options.inner.rate == 1000.5);
    EXPECT_OK(parse("--count=+0_7 --rate 1_0e-0_3"));
    EXPECT_INT(options.count, 7);
    EXPECT(options.inner.rate == 10e-3);
    static const char *const bad[] = {"--count _7",  "--count 7_",  "--count 1__0", "--count +_7", "--rate 1_.5",
                                      "--rate 1._5", "--rate 1_e5", "--rate 1e_5",  "--rate _1.5", "--rate 1.5_"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_ERROR(parse(bad[i]), "number");
    EXPECT_OK(parse("--refused-value 0_1"));
}

// Other people's programs pass --bf16 True. In a command with positional arguments, True is one of them.
TEST(switches_with_values) {
    EXPECT_OK(parse("--on True"));
    EXPECT(options.on && options.files.count == 1);
    struct flag_command plain = command;
    plain.positional_name = NULL;
    char *yes[] = {"try", "--num-layers", "1", "--on", "True", "--no-off", "true", "--ignored-switch", "True"};
    flags_free(&command, &options);
    EXPECT_OK(flags_parse(&plain, &options, 9, yes));
    EXPECT(options.on && !options.off);
    char *no[] = {"try", "--num-layers", "1", "--on", "False", "--everything", "false"};
    flags_free(&command, &options);
    EXPECT_OK(flags_parse(&plain, &options, 7, no));
    EXPECT(!options.on);
    char *other[] = {"try", "--num-layers", "1", "--on", "yes"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&plain, &options, 5, other), "unexpected argument \"yes\"");
}

TEST(malformed) {
    static const char *const bad[][2] = {
        {"--count 11", "--count takes a whole number, from 1 to 10, not \"11\"; nearest: --count 10"},
        {"--count 0", "\"0\""},
        {"--count 1e1", "\"1e1\""},
        {"--count 5x", "\"5x\""},
        {"--count=", "\"\""},
        {"--count 99999999999999999999", "whole number"},
        {"--count 0x5", "\"0x5\""},
        {"--ratio 1", "from 0 to less than 1, not \"1\""},
        {"--ratio 0.99999999", "from 0 to less than 1, not \"0.99999999\""},  // 1 in fp32
        {"--ratio -0.1", "from 0 to less than 1, not \"-0.1\"; nearest: --ratio 0"},
        {"--ratio nan", "\"nan\""},
        {"--ratio inf", "\"inf\""},
        {"--ratio 1e999", "--ratio takes a number"},
        {"--ratio 0x1p-2", "\"0x1p-2\""},
        {"--ratio .", "\".\""},
        {"--rate 1e999", "--rate takes a number"},
        {"--color pink", "--color takes one of red, Green, blue, not \"pink\""},
        {"--shape flat", "--shape takes one of round, Square, quadratic, not \"flat\""},
        {"--color Azure", "--color takes one of red, Green, blue, not \"Azure\": it is a kind of blue"},
        {"--on=maybe", "--on is a switch"},
        {"--text --on", "--text needs a value, and --on follows"},
        {"--names --on", "--names needs a value"},
        {"-x", "flags begin with two dashes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_ERROR(parse(bad[i][0]), bad[i][1]);
        EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    }
    // A bound that is excluded is near, but cannot be named; the other one is far.
    EXPECT_ERROR(parse("--rate 0"), "--rate takes a number, more than 0");
    EXPECT(!strstr(error_message(), "nearest"));
    EXPECT_ERROR(parse("--rate 1e-60"), "--rate takes a number, more than 0");
    EXPECT(!strstr(error_message(), "nearest"));
    char *lonely[] = {"try", "--num-layers", "1", "--text"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&command, &options, 4, lonely), "--text needs a value (");
    char *without[] = {"try", "--on"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&command, &options, 2, without), "try needs --num-layers (layers)");
}

// Mistakes are reported together, in order, and the values of a wrong flag are not reported separately.
TEST(all_mistakes_at_once) {
    EXPECT_ERROR(parse("--cuont 3 --ratio 7 --text a --color pink"),
                 "3 problems with the flags:\n  1. unknown flag --cuont; did you mean --count?\n  2. --ratio takes a "
                 "number, from 0 to less than 1, not \"7\"\n  3. --color takes one of red, Green, blue, not \"pink\"");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    char *missing[] = {"try", "--colr", "red"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&command, &options, 3, missing), "unknown flag --colr; did you mean --color?");
    EXPECT(strstr(error_message(), "num-layers") == NULL);
    // A command without positional arguments.
    struct flag_command plain = command;
    plain.positional_name = NULL;
    char *stray[] = {"try", "--num-layers", "1", "--colr", "red", "green", "--count", "99", "--on", "stray"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&plain, &options, 10, stray), "3 problems");
    EXPECT(strstr(error_message(), "unexpected argument \"stray\"") != NULL);
    EXPECT(strstr(error_message(), "green") == NULL);
}

// Any number of them; a flood is truncated after a whole message, and counted.
TEST(all_of_many_mistakes) {
    struct buffer line = {0};
    for (int i = 0; i < 60; i++)
        buffer_printf(&line, "--zzzzzzz%d ", i);
    EXPECT_ERROR(parse(buffer_string(&line)), "60 problems with the flags:\n  1. unknown flag --zzzzzzz0;");
    EXPECT(strstr(error_message(), "\n  60. unknown flag --zzzzzzz59; `bevatron try --help-all` lists all flags") !=
           NULL);
    for (int i = 0; i < 3000; i++)
        buffer_printf(&line, "--zzzzzzz%d ", i);
    EXPECT_ERROR(parse(buffer_string(&line)), "3060 problems with the flags:");
    EXPECT(strstr(error_message(), "\n  … and ") != NULL);
    buffer_free(&line);
}

TEST(suggestions) {
    EXPECT_ERROR(parse("--cuont 3"), "unknown flag --cuont; did you mean --count?");
    EXPECT_ERROR(parse("--num-layer 3"), "did you mean --num-layers?");
    EXPECT_ERROR(parse("--colour=red"), "unknown flag --colour; did you mean --color?");
    EXPECT_ERROR(parse("--num-l 3"), "did you mean --num-layers?");
    EXPECT_ERROR(parse("--numbre 3"), "did you mean --number?");
    EXPECT_ERROR(parse("--hlep"), "did you mean --help?");
    EXPECT_ERROR(parse("--zzzzzzzzzz"), "`bevatron try --help-all` lists all flags");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    // Longer than any name: no suggestion, and nothing overflows.
    char name[300] = "--";
    memset(name + 2, 'a', sizeof name - 3);
    EXPECT_ERROR(parse(name), "unknown flag");
}

TEST(aliases_and_names) {
    log_set_level(LOG_ERROR);
    EXPECT_OK(parse("--number 9"));
    EXPECT_INT(options.count, 9);
    EXPECT(flag_is_given(&options.given, "--count"));
    EXPECT_ERROR(parse("--number 99"), "--number is the old name of --count: --count takes");
    EXPECT_OK(parse("--everything"));
    EXPECT(options.on);
    EXPECT_STRING(options.color, "blue");
    EXPECT_OK(parse("--everything=false"));
    EXPECT(!options.on);
    EXPECT_OK(parse("--ignored-switch --ignored-value v --ignored_list a b --count 2 --ignored-value=3"));
    EXPECT_INT(options.count, 2);
    EXPECT_INT(options.files.count, 0);
    EXPECT_ERROR(parse("--refused-switch"), "--refused-switch is not implemented");
    EXPECT_ERROR(parse("--refused-value 2"), "--refused-value is not implemented");
    EXPECT_ERROR(parse("--refused-plain 2"), "--refused-plain is not implemented");
    EXPECT_ERROR(parse("--refused-plain="), "--refused-plain is not implemented");
    EXPECT_ERROR(parse("--refused-word other"), "--refused-word is not implemented");
    EXPECT_OK(parse("--refused-value 1.0 --refused-word auto --refused-switch=false"));
    log_set_level(LOG_INFO);
}

// A command with only some rows of a table: the others keep their defaults and are refused, but not in a file.
TEST(offered) {
    struct flag_table few[2] = {tables[0], tables[1]};
    few[0].offered = 1;
    few[0].refusal = "is a flag of try, not of this";
    struct flag_command part = command;
    part.tables = few;
    struct options given;
    static const struct {
        const char *argument, *error;
    } cases[] = {{"--on", NULL},
                 {"--color=blue", NULL},
                 {"--count=4", "--count is a flag of try, not of this; leave it out"},
                 {"--number=4", "--count is a flag of try"},
                 {"--everything", NULL},
                 {"--ignored-switch", NULL},
                 {"--coun=4", "unknown flag --coun; `bevatron try --help-all` lists all flags"}};
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *argv[] = {"this", (char *)cases[i].argument, "--num-layers=2"};
        if (cases[i].error)
            EXPECT_ERROR(flags_parse(&part, &given, 3, argv), cases[i].error);
        else
            EXPECT_OK(flags_parse(&part, &given, 3, argv));
        EXPECT_INT(given.count, 3);
        flags_free(&part, &given);
    }
    flags_set_defaults(&part, &given);
    EXPECT_OK(flags_read_text(&part, &given, "run.yaml", "count: 5\n", 9));
    EXPECT_INT(given.count, 5);
    flags_free(&part, &given);
    log_set_level(LOG_INFO);
    struct buffer text = {0};
    flags_help(&part, true, &text);
    EXPECT(strstr(text.data, "--color") && strstr(text.data, "--rate") && !strstr(text.data, "--count"));
    buffer_free(&text);
}

TEST(positionals) {
    EXPECT_OK(parse("one --on two"));
    EXPECT_INT(options.files.count, 2);
    EXPECT_STRING(options.files.items[1], "two");
    EXPECT_ERROR(parse("one two three"), "unexpected argument \"three\"");
    char *dashes[] = {"try", "--num-layers", "1", "--", "--on", "-"};
    flags_free(&command, &options);
    EXPECT_OK(flags_parse(&command, &options, 6, dashes));
    EXPECT(!options.on);
    EXPECT_STRING(options.files.items[0], "--on");
    struct flag_command strict = command;
    strict.positional_minimum = 1;
    char *nothing[] = {"try", "--num-layers", "1"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&strict, &options, 3, nothing), "try needs FILE…");
    struct flag_command without = command;
    without.positional_name = NULL;
    char *extra[] = {"try", "surplus"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&without, &options, 2, extra), "unexpected argument \"surplus\": try takes only flags");
    without.argument_flag = "--name";
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&without, &options, 2, extra), "takes only flags; did you mean --name surplus?");
}

struct size_options {
    struct flag_given given;
    int64_t bytes, count;
};

struct count_options {
    struct flag_given given;
    double tokens;
};

TEST(counts) {
    static const struct flag row = {.name = "--tokens",
                                    .type = FLAG_DOUBLE,
                                    .offset = offsetof(struct count_options, tokens),
                                    .is_size = true,
                                    .maximum = 1e18,
                                    .help = "tokens"};
    static const struct flag_table table = {.rows = {&row, 1, NULL}, .given = offsetof(struct count_options, given)};
    static const struct flag_command counts = {.name = "counts", .tables = &table, .table_count = 1};
    static const struct {
        char *word;
        double tokens;  // -1: an error
    } cases[] = {{"300B", 300e9}, {"1.5T", 1.5e12}, {"2t", 2e12},     {"7_000M", 7e9}, {"4k", 4e3}, {"3e11", 3e11},
                 {"0.5B", 5e8},   {"1e9T", -1},     {"2000000T", -1}, {"B", -1},       {"-1B", -1}, {"3BB", -1},
                 {"3GB", -1},     {"nanB", -1},     {"300 B", -1},    {"1e300T", -1}};
    struct count_options given;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *argv[] = {"counts", "--tokens", cases[i].word};
        if (cases[i].tokens < 0) {
            EXPECT_ERROR(flags_parse(&counts, &given, 3, argv), "--tokens takes a number, e.g. 300B, 1.5T or 3e11");
        } else {
            EXPECT_OK(flags_parse(&counts, &given, 3, argv));
            EXPECT(given.tokens == cases[i].tokens);
        }
        flags_free(&counts, &given);
    }
}

TEST(letters_and_sizes) {
    static const struct flag rows[] = {{.name = "--min-bytes",
                                        .type = FLAG_INT,
                                        .offset = offsetof(struct size_options, bytes),
                                        .letter = 'b',
                                        .is_size = true,
                                        .initial = "1K",
                                        .minimum = 4,
                                        .maximum = 0x1p40,
                                        .help = "bytes"},
                                       {.name = "--count",
                                        .type = FLAG_INT,
                                        .offset = offsetof(struct size_options, count),
                                        .letter = 'n',
                                        .help = "a count"}};
    static const struct flag_table table = {.rows = {rows, 2, NULL}, .given = offsetof(struct size_options, given)};
    static const struct flag_command sizes = {.name = "sizes", .tables = &table, .table_count = 1};
    static const struct {
        const char *words[3];
        int64_t bytes, count;
        const char *error;
    } cases[] = {{{"-b", "8", "-n5"}, 8, 5, NULL},
                 {{"-b32M"}, 32 << 20, 0, NULL},
                 {{"-b", "1.5g"}, 3 << 29, 0, NULL},
                 {{"--min-bytes=64k", "-n", "-3"}, 64 << 10, -3, NULL},
                 {{"--min-bytes", "1_024"}, 1024, 0, NULL},
                 {{"-b", "0.1K"}, 102, 0, NULL},
                 {{"-n", "4"}, 1024, 4, NULL},
                 {{"-b", "1T"}, INT64_C(1) << 40, 0, NULL},
                 {{"-b", "2T"}, 0, 0, "--min-bytes takes a number of bytes, with K, M, G or T"},
                 {{"-b", "K"}, 0, 0, "--min-bytes takes"},
                 {{"-b", "3KM"}, 0, 0, "--min-bytes takes"},
                 {{"-b", "8B"}, 0, 0, "--min-bytes takes"},
                 {{"-b", "nanK"}, 0, 0, "--min-bytes takes"},
                 {{"-b", "1e300G"}, 0, 0, "--min-bytes takes"},
                 {{"-n", "4K"}, 0, 0, "--count takes a whole number"},
                 {{"-b"}, 0, 0, "-b needs a value"},
                 {{"-b", "--count", "3"}, 0, 0, "-b needs a value, and --count follows"},
                 {{"-x", "3"}, 0, 0, "unknown flag -x; flags begin with two dashes, except -b -n"}};
    struct size_options given;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *argv[4] = {"sizes"};
        int argc = 1;
        while (argc < 4 && cases[i].words[argc - 1]) {
            argv[argc] = (char *)cases[i].words[argc - 1];
            argc++;
        }
        if (cases[i].error) {
            EXPECT_ERROR(flags_parse(&sizes, &given, argc, argv), cases[i].error);
        } else {
            EXPECT_OK(flags_parse(&sizes, &given, argc, argv));
            EXPECT_INT(given.bytes, cases[i].bytes);
            EXPECT_INT(given.count, cases[i].count);
        }
        flags_free(&sizes, &given);
    }
    struct buffer text = {0};
    flags_help(&sizes, false, &text);
    EXPECT(strstr(text.data, "  -b, --min-bytes SIZE            bytes [≥ 4] (default 1K)\n") != NULL);
    buffer_free(&text);
}

// A value in the syntax of Hydra programs (NeMo).
TEST(overrides) {
    struct flag_command strict = command;
    strict.positional_name = NULL;
    char *argv[] = {"try", "training.model.num_layers=24"}, *added[] = {"try", "+count=2"}, *other[] = {"try", "a.b=2"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&strict, &options, 2, argv), "a flag overrides the file; write --num_layers=24");
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&strict, &options, 2, added), "write --count=2");
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&strict, &options, 2, other), "unexpected argument \"a.b=2\": try takes only flags");
}

TEST(help) {
    struct buffer text = {0};
    flags_help(&command, false, &text);
    static const char *const parts[] = {"usage: bevatron try FILE… [flags]\n",
                                        "Tries things.\n",
                                        "\nThings\n",
                                        "  --on                            switch\n",
                                        "  --count N                       a count [from 1 to 10] (default 3)\n",
                                        "  --ratio X                       a ratio [from 0 to less than 1]\n",
                                        "  --color NAME                    color [red|Green|blue] (default red)\n",
                                        "  --num-layers N                  layers (required)\n",
                                        "  --rate X                        rate [> 0] (default 1e-4)\n",
                                        "  --config FILE ",
                                        "2 more flags: bevatron try --help-all",
                                        "That is all.\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(text.data, parts[i]))
            test_fail("help lacks \"%s\":\n%s", parts[i], text.data);
    EXPECT(!strstr(text.data, "--inputs"));
    buffer_clear(&text);
    flags_help(&command, true, &text);
    EXPECT(strstr(text.data, "--inputs TEXT…") != NULL);
    buffer_clear(&text);
    flags_markdown(&command, &text);
    EXPECT(strstr(text.data, "\n## Texts\n\nWords of several kinds.\n\n| flag |") != NULL);
    EXPECT(strstr(text.data, "| `--text WORD` |  | a text \\| with a bar |\n") != NULL);
    EXPECT(strstr(text.data, "| `--color NAME` | `red`; red\\|Green\\|blue | color |\n") != NULL);
    buffer_free(&text);
    EXPECT_INT(parse("--unknown --help"), FLAGS_HELP);
}

TEST(set_and_format) {
    EXPECT_OK(parse(""));
    EXPECT_OK(flag_set(&tables[0], &options, "ratio", "0.25", FLAG_FROM_PRESET));
    EXPECT_OK(flag_set(&tables[0], &options, "--names", "x y z", FLAG_FROM_FILE));
    EXPECT_OK(flag_set(&tables[1], &options, "num_layers", "12", FLAG_FROM_PRESET));
    EXPECT_INT(options.inner.layers, 12);
    EXPECT(!flag_is_given(&options.given, "ratio") && flag_is_given(&options.given, "names"));
    EXPECT_ERROR(flag_set(&tables[0], &options, "nope", "1", FLAG_FROM_FILE), "no flag nope");
    EXPECT_ERROR(flag_set(&tables[0], &options, "ratio", "2", FLAG_FROM_FILE), "--ratio takes");
    EXPECT(options.ratio == 0.25);
    struct buffer text = {0};
    static const char *const expected[][2] = {{"on", "false"},  {"count", "3"},     {"ratio", "0.25"},
                                              {"text", "None"}, {"names", "x y z"}, {"inputs", "None"}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        buffer_clear(&text);
        flag_format(flag_find(&tables[0], expected[i][0]), &options, &text);
        EXPECT_STRING(buffer_string(&text), expected[i][1]);
    }
    buffer_free(&text);
    flags_free(&command, &options);
}

TEST_MAIN(TEST_CASE(defaults), TEST_CASE(values), TEST_CASE(underscores), TEST_CASE(switches_with_values),
          TEST_CASE(malformed), TEST_CASE(all_mistakes_at_once), TEST_CASE(all_of_many_mistakes),
          TEST_CASE(suggestions), TEST_CASE(aliases_and_names), TEST_CASE(offered), TEST_CASE(positionals),
          TEST_CASE(letters_and_sizes), TEST_CASE(counts), TEST_CASE(overrides), TEST_CASE(help),
          TEST_CASE(set_and_format))
