// The list of arguments at the start of a log: all of them as Megatron prints them, or folded.
#include "parse_line.h"
#include "test.h"
#include "base/memory.h"
#include "config/config.h"
#include <unistd.h>

static struct config config;

static int parse(const char *line) {
    return parse_line(&config, line);
}

TEST(dump) {
    EXPECT_OK(parse("--num-layers 2 --lr 1.5e-4 --data-path a b --bf16 --clip-grad 2"));
    struct buffer text = {0};
    config_dump(&config, false, &text);
    static const char *const lines[] = {
        "------------------------ arguments ------------------------\n  account_for_embedding_in_pipeline_split "
        "......... False\n",
        "\n  accumulate_allreduce_grads_in_fp32 .............. False\n",
        "\n  adam_beta1 ...................................... 0.9\n",
        "\n  adam_eps ........................................ 1e-08\n",
        "\n  bf16 ............................................ True\n",
        "\n  clip_grad ....................................... 2.0\n",
        "\n  data_path ....................................... ['a', 'b']\n",
        "\n  initial_loss_scale .............................. 4294967296.0\n",
        "\n  lr .............................................. 0.00015\n",
        "\n  lr_decay_style .................................. linear\n",
        "\n  num_layers ...................................... 2\n",
        "\n  save ............................................ None\n",
        "\n  train_iters ..................................... None\n",
        "\n-------------------- end of arguments ---------------------\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(text.data, lines[i]))
            test_fail("the dump lacks \"%s\":\n%s", lines[i], text.data);
    // Sorted: no name is below the previous one.
    char before[64] = "", name[64];
    for (const char *p = strchr(text.data, '\n') + 1; sscanf(p, "  %63s", name) == 1 && name[0] != '-';) {
        EXPECT(strcmp(before, name) < 0);
        memcpy(before, name, sizeof name);
        p = strchr(p, '\n') + 1;
    }
    EXPECT_STRING(before, "zero_stage");
    buffer_free(&text);
    // Folded: given flags, even with their default value, and what was derived from them.
    EXPECT_OK(parse("--num-layers 2 --lr 1 --log-interval 100 --train-iters 3"));
    config.model.ffn_hidden_size = 256;
    config_dump(&config, true, &text);
    size_t count = 0;
    struct flag_table table = config_flag_table(0);
    for (size_t i = 0; i < flag_count(&table.rows); i++)
        count += flag_at(&table.rows, i)->type != FLAG_GROUP;
    char *expected = memory_printf("------------------------ arguments ------------------------\n"
                                   "  data_parallel_size .............................. 0\n"
                                   "  ffn_hidden_size ................................. 256\n"
                                   "  log_interval .................................... 100\n"
                                   "  lr .............................................. 1.0\n"
                                   "  num_layers ...................................... 2\n"
                                   "  params_dtype .................................... None\n"
                                   "  train_iters ..................................... 3\n"
                                   "  world_size ...................................... 0\n"
                                   "  (%zu more have their defaults; --log-arguments lists them)\n"
                                   "-------------------- end of arguments ---------------------\n",
                                   count - 5);
    EXPECT_STRING(text.data, expected);
    free(expected);
    buffer_free(&text);
}

// A run's flags as stored and printed in its log, config.json, metrics, TensorBoard and wandb.
static void expect_no_secrets(const char *text) {
    static const char *const secrets[] = {"s3cret", "Authorization", "curl", "KEY", "abc123"};
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
        if (strstr(text, secrets[i]))
            test_fail("\"%s\" is shown:\n%s", secrets[i], text);
}

TEST(secrets_are_not_stored) {
    char *words[] = {"train",
                     "--on-event",
                     "curl -H 'Authorization: s3cret' https://example.org/s3cret",
                     "--data-path",
                     "https://h/a.jsonl?part=1&sig=abc123",
                     "--save",
                     "run",
                     "--save-to",
                     "s3://KEY:s3cret@bucket/run"};
    config_free(&config);
    EXPECT_OK(config_parse(&config, sizeof words / sizeof words[0], words));
    EXPECT_STRING(config.watch.on_event, words[2]);
    struct buffer text = {0}, json = {0}, changes = {0};
    struct json_writer writer = {.out = &json};
    config_dump(&config, false, &text);
    config_to_json(&config, &writer);
    expect_no_secrets(buffer_string(&text));
    expect_no_secrets(buffer_string(&json));
    EXPECT(strstr(text.data, "on_event ........................................ [redacted]\n"));
    EXPECT(strstr(json.data, "\"data_path\":[\"https://h/a.jsonl?part=1&sig=[redacted]\"]"));
    EXPECT(strstr(json.data, "\"save_to\":\"s3://[redacted]@bucket/run\""));
    // The run goes on with the same flags: nothing has changed.
    config_list_changes(&config, buffer_string(&json), &changes);
    EXPECT(!strstr(buffer_string(&changes), "--data-path"));
    // As a file of --config it gives the other flags, and these three are as if they were not there.
    char path[] = "/tmp/bevatron_dump_XXXXXX";
    int file = mkstemp(path);
    EXPECT(file >= 0 && write(file, json.data, json.length) == (ssize_t)json.length && close(file) == 0);
    char *again[] = {"train", "--config", path};
    config_free(&config);
    EXPECT_OK(config_parse(&config, 3, again));
    EXPECT(!config.watch.on_event && !config.run.save_to && config.data.data_path.count == 0);
    EXPECT_STRING(config.run.save, "run");
    remove(path);
    buffer_free(&text);
    buffer_free(&json);
    buffer_free(&changes);
}

TEST(a_command_in_a_file_is_stored_as_the_file) {
    EXPECT_OK(parse("--on-event @/home/me/notify.sh"));
    struct buffer text = {0};
    config_dump(&config, false, &text);
    EXPECT(strstr(text.data, "on_event ........................................ @/home/me/notify.sh\n"));
    buffer_free(&text);
}

TEST_MAIN(TEST_CASE(dump), TEST_CASE(secrets_are_not_stored), TEST_CASE(a_command_in_a_file_is_stored_as_the_file))
