// Configuration files: the YAML subset, JSON, the order in which files and flags override each other, and errors that
// name file and line.
#include "test.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/flag.h"
#include <stddef.h>
#include <unistd.h>

struct file_options {
    struct flag_given given;
    int64_t num_layers;
    double lr;
    bool fp16, checks;
    char *save, *style;
    struct string_list data_path;
};

static const char *const styles[] = {"linear", "cosine", NULL};
#define AT(field) offsetof(struct file_options, field)
static const struct flag flags[] = {
    {.name = "--num-layers",
     .type = FLAG_INT,
     .offset = AT(num_layers),
     .minimum = 1,
     .maximum = 100,
     .help = "layers"},
    {.name = "--lr", .type = FLAG_DOUBLE, .offset = AT(lr), .help = "rate"},
    {.name = "--fp16", .type = FLAG_BOOL, .offset = AT(fp16), .help = "half"},
    {.name = "--no-checks", .type = FLAG_BOOL_OFF, .offset = AT(checks), .initial = "true", .help = "no checks"},
    {.name = "--save", .type = FLAG_STRING, .offset = AT(save), .initial = "here", .help = "folder"},
    {.name = "--style", .type = FLAG_CHOICE, .offset = AT(style), .choices = styles, .help = "style"},
    {.name = "--data-path", .type = FLAG_STRING_LIST, .offset = AT(data_path), .help = "data"},
};
static const struct flag_alias aliases[] = {{"--layers", "--num-layers", NULL, NULL}, {0}};
static const struct flag_names names[] = {{"--wandb-project= --moe=1", "is refused", true}};
static const struct flag_table tables[] = {{.rows = {flags, sizeof flags / sizeof flags[0], NULL},
                                            .given = AT(given),
                                            .aliases = aliases,
                                            .names = names,
                                            .names_count = 1,
                                            .derived = "world_size schedule",
                                            .beside = "--nproc --dry-run "}};
static const struct flag_command command = {.name = "try", .tables = tables, .table_count = 1};

static struct file_options options;

static int read_text(const char *text) {
    flags_free(&command, &options);
    flags_set_defaults(&command, &options);
    return flags_read_text(&command, &options, "run.yaml", text, strlen(text));
}

TEST(yaml_values) {
    EXPECT_OK(read_text("---\n"
                        "# a comment\n"
                        "num-layers: 12   # and another\n"
                        "lr: 1.5e-4\r\n"
                        "\n"
                        "fp16: True\n"
                        "--no-checks: yes\n"
                        "save: \"a # b\\t\\\"c\\\"\"\n"
                        "'style': 'Cosine'\n"
                        "data_path: [0.3, 'x, y', \"z\"]"));
    EXPECT_INT(options.num_layers, 12);
    EXPECT(options.lr == 1.5e-4 && options.fp16 && !options.checks);
    EXPECT_STRING(options.save, "a # b\t\"c\"");
    EXPECT_STRING(options.style, "cosine");
    EXPECT_INT(options.data_path.count, 3);
    EXPECT_STRING(options.data_path.items[1], "x, y");
    EXPECT_INT(flag_source(&options.given, "--lr"), FLAG_FROM_FILE);
    EXPECT_OK(read_text("\xef\xbb\xbfnum_layers: 3\n"));
    EXPECT_INT(options.num_layers, 3);
}

TEST(yaml_texts_and_lists) {
    EXPECT_OK(read_text("data-path:\n  - a b\n  - 'it''s'\n- c\nsave: don't panic\n"));
    EXPECT_INT(options.data_path.count, 3);
    EXPECT_STRING(options.data_path.items[0], "a b");
    EXPECT_STRING(options.data_path.items[1], "it's");
    EXPECT_STRING(options.save, "don't panic");
    EXPECT_OK(read_text("data-path: 0.5 a 0.5 b\n"));
    EXPECT_INT(options.data_path.count, 4);
    EXPECT_OK(read_text("data-path: 'my data'\nsave: null\nlr: ~\nfp16: false\n"));
    EXPECT_INT(options.data_path.count, 1);
    EXPECT_STRING(options.save, "here");
    EXPECT(!flag_is_given(&options.given, "--save") && !flag_is_given(&options.given, "--lr"));
    EXPECT(flag_is_given(&options.given, "--fp16") && !options.fp16);
    EXPECT_OK(read_text("save: ''\ndata-path: [a, b, ]\nlayers: 4\nmoe: 1\n"));
    EXPECT_STRING(options.save, "");
    EXPECT_INT(options.data_path.count, 2);
    EXPECT_INT(options.num_layers, 4);
    EXPECT_OK(read_text("save: a#b\n"));
    EXPECT_STRING(options.save, "a#b");
    EXPECT_OK(read_text(""));
    EXPECT_OK(read_text("\n# nothing\n"));
}

TEST(yaml_mistakes) {
    static const char *const bad[][2] = {
        {"lr: 1\nnum-layers: twelve\n", "run.yaml:2: --num-layers takes a whole number, from 1 to 100, not \"twelve\""},
        {"num-layer: 1\n", "run.yaml:1: unknown flag --num-layer; did you mean --num-layers?"},
        {"lr: 1\n\n\nlr: 2\n", "run.yaml:4: lr is set a second time (first in line 1)"},
        {"lr: 1\n--lr: 2\n", "run.yaml:2: --lr is set a second time"},
        {"save:\nlr: 1\n", "run.yaml:1: a value is missing"},
        {"save:", "run.yaml:1: a value is missing"},
        {"model:\n  lr: 1\n", "run.yaml:1: unknown flag --model"},
        {"data-path:\n  lr: 1\n", "run.yaml:2: an indented line; flags are not nested"},
        {"- a\n", "run.yaml:1: a list item stands under no flag"},
        {"lr: 1\nfp16: true\n- a\n", "run.yaml:2: --fp16 is a switch"},
        {"data-path:\n  -\n", "run.yaml:2: a list item is empty"},
        {"lr\n", "run.yaml:1: a line is not of the form `flag: value`"},
        {"lr:1\n", "run.yaml:1: a line is not of the form"},
        {"lr: 1 2\n", "run.yaml:1: --lr takes a number, not \"1 2\""},
        {"lr: [1, 2]\n", "run.yaml:1: --lr takes one value, not 2"},
        {"save: \"abc\n", "run.yaml:1: a quote is opened and not closed"},
        {"save: \"a\" b\n", "run.yaml:1: there is text after a closing quote"},
        {"save: \"\\q\"\n", "run.yaml:1: only \\\\"},
        {"save: \"\\", "run.yaml:1: "},
        {"data-path: [a, b\n", "run.yaml:1: a list is opened with [ and not closed"},
        {"data-path: [a] b\n", "run.yaml:1: there is text after the ] of a list"},
        {"data-path: [a,, b]\n", "run.yaml:1: a value that begins with one of"},
        {"data-path: []\n", "run.yaml:1: a value is missing"},
        {"save: |\n", "must stand in quotes"},
        {"save: &x\n", "must stand in quotes"},
        {"save: a: b\n", "run.yaml:1: a second colon"},
        {"lr: 1\n\tfp16: true\n", "run.yaml:2: a tab"},
        {"config: other.yaml\n", "cannot name another one"},
        {"moe: 8\n", "run.yaml:1: --moe is refused"},
        {"num-layers: 101\n", "from 1 to 100"},
        {": 1\n", "not of the form"},
        {"{lr: 1}\n", "run.yaml"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_ERROR(read_text(bad[i][0]), bad[i][1]);
        EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    }
    flags_free(&command, &options);
    flags_set_defaults(&command, &options);
    EXPECT_ERROR(flags_read_text(&command, &options, "run.yaml", "lr: 1\0002", 7), "NUL bytes");
}

TEST(mistakes_at_once) {
    EXPECT_ERROR(
        read_text("num-layer:\n  - 1\n  - 2\nlr: 0.5\nnum-layers: twelve\n"),
        "2 problems with the flags:\n  1. run.yaml:1: unknown flag --num-layer; did you mean --num-layers?\n  2. "
        "run.yaml:5: --num-layers takes a whole number");
    EXPECT(options.lr == 0.5);
    EXPECT_ERROR(read_text("{\"num-layer\": [1], \"fp-16\": true}"), "2 problems with the flags");
}

// A file that is not a configuration, e.g. a vocabulary, has thousands of names that are not flags: if none of the
// first ones is, the rest is not read.
TEST(many_mistakes) {
    struct buffer yaml = {0}, json = {0};
    buffer_append_byte(&json, '{');
    for (int i = 0; i < 100; i++) {
        buffer_printf(&yaml, "word%d: %d\n", i, i);
        buffer_printf(&json, "\"word%d\": %d, ", i, i);
    }
    buffer_append_string(&yaml, "lr: 0.5\n");
    buffer_append_string(&json, "\"lr\": 0.5}");
    const char *texts[] = {buffer_string(&yaml), buffer_string(&json)};
    for (int i = 0; i < 2; i++) {
        EXPECT_ERROR(read_text(texts[i]), "13 problems with the flags:\n  1. run.yaml:1: unknown flag --word0");
        EXPECT(strstr(error_message(), "\n  12. ") && !strstr(error_message(), "\n  14. "));
        EXPECT(strstr(error_message(), "\n  13. run.yaml: 12 keys are unknown and none is a flag") != NULL);
        EXPECT(options.lr != 0.5);
    }
    buffer_free(&yaml);
    buffer_free(&json);
    // A configuration with many mistakes is reported completely.
    buffer_append_string(&yaml, "lr: 0.5\n");
    for (int i = 0; i < 40; i++)
        buffer_printf(&yaml, "word%d: %d\n", i, i);
    EXPECT_ERROR(read_text(buffer_string(&yaml)), "40 problems with the flags:\n  1. run.yaml:2: unknown flag --word0");
    EXPECT(strstr(error_message(), "\n  40. run.yaml:41: unknown flag --word39") != NULL);
    buffer_free(&yaml);
}

TEST(byte_order_mark) {
    EXPECT_OK(read_text("\xef\xbb\xbf{\"num_layers\": 24}"));
    EXPECT_INT(options.num_layers, 24);
    EXPECT_OK(read_text("\xef\xbb\xbfnum_layers: 23\r\n"));
    EXPECT_INT(options.num_layers, 23);
}

TEST(json) {
    EXPECT_OK(read_text(" {\"num_layers\": 24, \"lr\": 1e-3, \"--fp16\": true, \"no-checks\": false,\n"
                        "  \"save\": \"a b\", \"style\": null, \"data-path\": [\"x\", 0.5, \"y z\"]}"));
    EXPECT_INT(options.num_layers, 24);
    EXPECT(options.lr == 1e-3 && options.fp16 && options.checks && !options.style);
    EXPECT_STRING(options.save, "a b");
    EXPECT_INT(options.data_path.count, 3);
    EXPECT_STRING(options.data_path.items[1], "0.5");
    EXPECT_STRING(options.data_path.items[2], "y z");
    EXPECT_ERROR(read_text("{\n \"lr\": 1,\n \"num-layers\": 0}"), "run.yaml:3: --num-layers takes");
    EXPECT_ERROR(read_text("{\"lr\": {}}"), "run.yaml:1: a value must be a number");
    EXPECT_ERROR(read_text("{\"data-path\": [[1]]}"), "a value must be a number");
    EXPECT_ERROR(read_text("{\"data-path\": []}"), "a value is missing");
    EXPECT_ERROR(read_text("{\"save\": \"a\\u0000b\"}"), "NUL character");
    EXPECT_ERROR(read_text("{\"lrr\": 1}"), "did you mean --lr?");
    EXPECT_ERROR(read_text("{\"lr\": 1, \"lr\": 2}"), "second time");
    EXPECT_ERROR(read_text("{\"lr\": 1,}"), "run.yaml");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
}

// Members that the program itself writes beside the flags are ignored, whatever they are; on the command line they are
// unknown.
TEST(derived_members) {
    EXPECT_OK(read_text("{\"world_size\": 8, \"schedule\": {\"lr\": [1]}, \"num_layers\": 3, \"schedule\": null}"));
    EXPECT_INT(options.num_layers, 3);
    EXPECT(options.lr == 0);
    EXPECT_ERROR(read_text("world_size: 8"), "unknown flag --world_size");
    char *argv[] = {"try", "--world-size", "8"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&command, &options, 3, argv), "unknown flag --world-size");
}

// A file may have the flags of another command with the same table; on the command line they are unknown.
TEST(flags_of_others) {
    EXPECT_OK(read_text("nproc: [4, 5]\nnum-layers: 3\ndry_run: true\n"));
    EXPECT_INT(options.num_layers, 3);
    EXPECT_OK(read_text("{\"nproc\": 4, \"num_layers\": 3, \"dry-run\": null}"));
    EXPECT_INT(options.num_layers, 3);
    char *argv[] = {"try", "--nproc", "8"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&command, &options, 3, argv), "unknown flag --nproc");
}

TEST(order) {
    char path[] = "/tmp/bevatron_test_config_XXXXXX";
    int descriptor = mkstemp(path);
    EXPECT(descriptor >= 0);
    close(descriptor);
    const char *text = "num-layers: 5\nsave: file\ndata-path: [p, q]\n";
    EXPECT_OK(file_write_all(path, text, strlen(text)));
    char *before[] = {"try", "--num-layers", "7", "--config", path};
    flags_free(&command, &options);
    EXPECT_OK(flags_parse(&command, &options, 5, before));
    EXPECT_INT(options.num_layers, 7);
    EXPECT_STRING(options.save, "file");
    EXPECT_INT(flag_source(&options.given, "--num-layers"), FLAG_FROM_COMMAND);
    EXPECT_INT(flag_source(&options.given, "--save"), FLAG_FROM_FILE);
    char *joined = memory_printf("--config=%s", path);
    char *after[] = {"try", joined, "--save", "line", "--data-path", "r"};
    flags_free(&command, &options);
    EXPECT_OK(flags_parse(&command, &options, 6, after));
    EXPECT_INT(options.num_layers, 5);
    EXPECT_STRING(options.save, "line");
    EXPECT_INT(options.data_path.count, 1);
    free(joined);
    EXPECT_INT(unlink(path), 0);
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&command, &options, 5, before), path);
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    char *lonely[] = {"try", "--config"};
    flags_free(&command, &options);
    EXPECT_ERROR(flags_parse(&command, &options, 2, lonely), "--config needs a value");
    flags_free(&command, &options);
}

static const char *variable(const char *name) {
    static const char *const set[][2] = {
        {"RUN", "/fsx/run 1"}, {"LAYERS", "7"}, {"EMPTY", ""}, {"BLEND", "0.3 a 0.7 b"}, {"SELF", "${RUN}"}};
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        if (strcmp(set[i][0], name) == 0)
            return set[i][1];
    return NULL;
}

// Reads the text as a --config file, the only kind with variables.
static int read_file(const char *text) {
    char path[] = "/tmp/bevatron_test_variables_XXXXXX";
    int descriptor = mkstemp(path);
    EXPECT(descriptor >= 0);
    close(descriptor);
    EXPECT_OK(file_write_all(path, text, strlen(text)));
    char *line[] = {"try", "--config", path};
    flags_free(&command, &options);
    int status = flags_parse(&command, &options, 3, line);
    EXPECT_INT(unlink(path), 0);
    return status;
}

TEST(variables) {
    environment_use(variable);
    EXPECT_OK(read_file("save: ${RUN}/out-${LAYERS}\nnum-layers: ${LAYERS}  # ${NONE}\ndata-path: ${BLEND}\n"));
    EXPECT_STRING(options.save, "/fsx/run 1/out-7");
    EXPECT_INT(options.num_layers, 7);
    EXPECT_INT(options.data_path.count, 4);
    EXPECT_OK(
        read_file("save: \"${RUN}\"\ndata-path: [\"${BLEND}\", ${LAYERS}, '${BLEND}']\nnum-layers: ${NONE:-3}\n"));
    EXPECT_STRING(options.save, "/fsx/run 1");
    EXPECT_INT(options.data_path.count, 3);
    EXPECT_STRING(options.data_path.items[0], "0.3 a 0.7 b");
    EXPECT_STRING(options.data_path.items[2], "${BLEND}");
    EXPECT_INT(options.num_layers, 3);
    // Literals, a value that is not expanded again, other dollars, empty ones, a default that does not set the flag.
    EXPECT_OK(read_file("save: $${RUN}/$RUN/$\nstyle: ${EMPTY:-cosine}\ndata-path:\n  - ${SELF}\n  - '$${A}'\n"));
    EXPECT_STRING(options.save, "${RUN}/$RUN/$");
    EXPECT_STRING(options.style, "cosine");
    EXPECT_STRING(options.data_path.items[0], "${RUN}");
    EXPECT_STRING(options.data_path.items[1], "$${A}");
    EXPECT_OK(read_file("save: ${NONE:-}\nlr: ${NONE:-null}\nstyle: ${EMPTY}\n"));
    EXPECT_STRING(options.save, "here");
    EXPECT(!flag_is_given(&options.given, "--lr") && !flag_is_given(&options.given, "--style"));
    EXPECT_OK(read_file("{\"save\": \"${RUN}\", \"data-path\": [\"$${RUN}\", \"${LAYERS}\"]}"));
    EXPECT_STRING(options.save, "/fsx/run 1");
    EXPECT_STRING(options.data_path.items[0], "${RUN}");
    EXPECT_STRING(options.data_path.items[1], "7");
    // Text from a checkpoint is not a reference.
    EXPECT_OK(read_text("save: ${NONE}\n"));
    EXPECT_STRING(options.save, "${NONE}");
    environment_clear();
}

TEST(variables_that_are_not_set) {
    environment_use(variable);
    EXPECT_ERROR(read_file("lr: 1\nsave: a/${NONE}\nnum-layers: 4\ndata-path: [${OTHER}, b]\n"), "2 problems");
    EXPECT(strstr(error_message(), ":2: the variable NONE is not set; set it (export NONE=…), or write ${NONE:-") !=
           NULL);
    EXPECT(strstr(error_message(), ":4: the variable OTHER is not set") != NULL);
    EXPECT_INT(options.num_layers, 4);
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    static const char *const bad[][2] = {{"save: ${RUN\n", ":1: ${ is opened and not closed"},
                                         {"save: ${}\n", ":1: ${} is neither"},
                                         {"save: ${1A}\n", "is neither"},
                                         {"save: ${RUN:?no}\n", "${RUN:?no} is neither"},
                                         {"save: ${NONE:-${RUN}}\n", "is neither"},
                                         {"{\n\"lr\": 1,\n\"save\": \"${NONE}\"}", ":3: the variable NONE"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_ERROR(read_file(bad[i][0]), bad[i][1]);
    environment_clear();
    environment_use(NULL);
    flags_free(&command, &options);
}

TEST_MAIN(TEST_CASE(yaml_values), TEST_CASE(yaml_texts_and_lists), TEST_CASE(yaml_mistakes),
          TEST_CASE(mistakes_at_once), TEST_CASE(many_mistakes), TEST_CASE(byte_order_mark), TEST_CASE(json),
          TEST_CASE(derived_members), TEST_CASE(flags_of_others), TEST_CASE(order), TEST_CASE(variables),
          TEST_CASE(variables_that_are_not_set))
