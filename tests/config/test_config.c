// The flags of a run: the tables are consistent, Megatron's old, ignored and refused names behave as promised, presets
// match published parameter counts, and configurations survive JSON.
#include "parse_line.h"
#include "test.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/config.h"
#include "config/flag_internal.h"
#include "config/flags.h"

static struct config config;

static int parse(const char *line) {
    return parse_line(&config, line);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_name(struct string_list *list, const char *name) {
    size_t length = strcspn(name, "= ");
    char *copy = memory_printf("%.*s", (int)length, name);
    for (char *p = copy + 2; *p; p++)
        *p = *p == '_' ? '-' : *p;
    string_list_add(list, copy);
    free(copy);
}

// Every name is unique, has two dashes and a help text, and aliases lead to rows.
TEST(tables_are_sound) {
    struct flag_table table = config_flag_table(0);
    struct string_list names = {0};
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&table.rows, i)); i++) {
        if (flag->type == FLAG_GROUP)
            continue;
        EXPECT(strncmp(flag->name, "--", 2) == 0);
        EXPECT(flag->help && strlen(flag->help) > 3 && flag->help[strlen(flag->help) - 1] != '.');
        EXPECT(flag->offset < sizeof(struct config));
        add_name(&names, flag->name);
    }
    for (const struct flag_alias *alias = table.aliases; alias->name; alias++) {
        EXPECT(flag_find(&table, alias->target) != NULL);
        if (alias == table.aliases || strcmp(alias->name, alias[-1].name) != 0)
            add_name(&names, alias->name);
    }
    int64_t refused = 0;
    for (size_t g = 0; g < table.names_count; g++)
        for (const char *p = table.names[g].names; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
            add_name(&names, p);
            refused += table.names[g].refused;
        }
    qsort(names.items, (size_t)names.count, sizeof *names.items, compare_names);
    for (int64_t i = 1; i < names.count; i++)
        if (strcmp(names.items[i], names.items[i - 1]) == 0)
            test_fail("%s stands twice in the tables", names.items[i]);
    EXPECT(names.count > 880 && refused > 440);
    string_list_free(&names);
}

// Flags that describe the model belong to all commands that have one; only those of training are train's alone.
TEST(model_flags_are_offered_to_all) {
    static const char training_alone[] =
        "--hidden-dropout --attention-dropout --z-loss-strength --init-method-std --embedding-init-method-std "
        "--no-scaled-init --mtp-loss-scaling-factor";
    static const enum config_use uses[] = {CONFIG_EVALUATE, CONFIG_GENERATE};
    for (size_t u = 0; u < sizeof uses / sizeof uses[0]; u++) {
        struct flag_table table = config_flag_table_for(0, uses[u]);
        const char *group = NULL;
        const struct flag *flag;
        for (size_t i = 0; (flag = flag_at(&table.rows, i)); i++) {
            if (flag->type == FLAG_GROUP) {
                group = flag->name;
                continue;
            }
            bool is_model = strcmp(group, "Model") == 0;
            if (is_model &&
                flag_is_offered(&table, flag) == flag_name_listed(flag->name, strlen(flag->name), training_alone))
                test_fail("%s describes the model, and is offered to the wrong commands", flag->name);
        }
    }
}

// Flags of scripts for any release work, are noted or are refused by name, but are never unknown.
TEST(no_flag_of_any_release_is_unknown) {
    FILE *file = fopen("tests/golden/megatron_flags.txt", "r");
    EXPECT(file);
    char name[128];
    int64_t count = 0;
    for (; fscanf(file, " %127s", name) == 1; count++) {
        struct flag_match match;
        if (!flag_resolve(config_command(), name, strlen(name), &match))
            test_fail("%s is unknown", name);
    }
    fclose(file);
    EXPECT(count > 900);
}

TEST(defaults_are_megatrons) {
    EXPECT_OK(parse(""));
    EXPECT(config.model.hidden_dropout == 0.1 && config.model.attention_dropout == 0.1 &&
           config.model.norm_epsilon == 1e-5);
    EXPECT(config.model.init_method_std == 0.02 && config.run.weight_decay == 0.01 && config.run.clip_grad == 1);
    EXPECT(config.run.adam_beta1 == 0.9 && config.run.adam_beta2 == 0.999 && config.run.adam_eps == 1e-8);
    EXPECT(config.run.initial_loss_scale == 4294967296.0 && config.run.min_lr == 0 && config.run.lr == 0);
    EXPECT_INT(config.run.seed, 1234);
    EXPECT_INT(config.run.eval_iters, 100);
    EXPECT_INT(config.run.eval_interval, 1000);
    EXPECT_INT(config.watch.log_interval, 100);
    EXPECT_INT(config.model.make_vocab_size_divisible_by, 128);
    EXPECT_INT(config.run.ckpt_step, -1);
    EXPECT_STRING(config.run.lr_decay_style, "linear");
    EXPECT_STRING(config.run.lr_wsd_decay_style, "exponential");
    EXPECT_STRING(config.run.optimizer, "adam");
    EXPECT(!config.run.save && !config.model.preset && config.data.data_path.count == 0);
}

// A typical v1.1 script, without its launcher line.
TEST(script_of_2020) {
    log_set_level(LOG_ERROR);
    EXPECT_OK(
        parse("--local_rank=0 --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --batch-size 8 --seq-length "
              "1024 --max-position-embeddings 1024 --train-iters 500000 --lr-decay-iters 320000 --save out --load out "
              "--data-path my-gpt2_text_document --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt --data-impl "
              "mmap --split 949,50,1 --distributed-backend nccl --lr 0.00015 --lr-decay-style cosine --min-lr 1.0e-5 "
              "--weight-decay 1e-2 --clip-grad 1.0 --warmup .01 --log-interval 100 --save-interval 10000 "
              "--eval-interval 1000 --eval-iters 10 --DDP-impl torch --model-parallel-size 1 --fp32-allreduce "
              "--checkpoint-num-layers 1 --min-scale 2 --layernorm-epsilon 1e-6 --override-lr-scheduler "
              "--scaled-upper-triang-masked-softmax-fusion --bias-gelu-fusion"));
    log_set_level(LOG_INFO);
    EXPECT_INT(config.run.micro_batch_size, 8);
    EXPECT(config.run.lr_warmup_fraction == 0.01 && config.run.min_loss_scale == 2 &&
           config.model.norm_epsilon == 1e-6);
    EXPECT_INT(config.machine.tensor_model_parallel_size, 1);
    EXPECT_INT(config.machine.recompute_num_layers, 1);
    EXPECT(config.run.accumulate_allreduce_grads_in_fp32 && config.run.override_opt_param_scheduler);
    EXPECT_STRING(config.data.split, "949,50,1");
    EXPECT_STRING(config.data.data_path.items[0], "my-gpt2_text_document");
}

TEST(other_names) {
    log_set_level(LOG_ERROR);
    EXPECT_OK(parse("--checkpoint-activations"));
    EXPECT_STRING(config.machine.recompute_granularity, "full");
    EXPECT_STRING(config.machine.recompute_method, "uniform");
    EXPECT_OK(parse("--activations-checkpoint-method block --activations-checkpoint-num-layers 2"));
    EXPECT_STRING(config.machine.recompute_granularity, "full");
    EXPECT_STRING(config.machine.recompute_method, "block");
    EXPECT_INT(config.machine.recompute_num_layers, 2);
    EXPECT_OK(parse("--recompute-activations"));
    EXPECT_STRING(config.machine.recompute_granularity, "selective");
    EXPECT_OK(parse("--use-checkpoint-opt-param-scheduler"));
    EXPECT(config.run.use_checkpoint_opt_param_scheduler);
    EXPECT_OK(parse("--persistent-save-interval 5 --no-pad-vocab-size"));
    EXPECT_INT(config.run.save_interval, 5);
    EXPECT_INT(config.model.make_vocab_size_divisible_by, 1);
    // Without meaning: accepted, and their values are not taken for anything else.
    EXPECT_OK(parse(
        "--one-logger-project p --use-mcore-models --transformer-impl local --num-workers 4 --no-masked-softmax-fusion "
        "--profile-ranks 0 1 --lazy-mpu-init --seed 7"));
    EXPECT_INT(config.run.seed, 7);
    // Flags that would change numbers: refused, unless the value is the default.
    EXPECT_ERROR(parse("--mtp-detach-heads"), "--mtp-detach-heads is a Megatron flag that bevatron does not implement");
    EXPECT_ERROR(parse("--moe-latent-size 4"), "--moe-latent-size describes a model that bevatron cannot train");
    EXPECT_ERROR(parse("--qk-l2-norm"), "--qk-l2-norm describes a model that bevatron cannot train");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    EXPECT_ERROR(parse("--moe-token-dispatcher-type foo"), "allgather, alltoall");
    EXPECT_OK(parse("--moe-router-topk 2 --expert-model-parallel-size 1 --sample-rate 1 --cp-comm-type p2p"));
    EXPECT_ERROR(parse("--micro-batchsize 3"), "did you mean --micro-batch-size?");
    EXPECT_ERROR(parse("--lr-decay-style quadratic"), "takes one of constant, linear, cosine");
    log_set_level(LOG_INFO);
}

TEST(presets) {
    EXPECT_OK(parse("--preset gpt2-124m --num-layers 3 --seq-length 4096"));
    EXPECT_INT(config.model.num_layers, 3);
    EXPECT_INT(config.model.hidden_size, 768);
    EXPECT_INT(config.model.max_position_embeddings, 4096);
    EXPECT_INT(flag_source(&config.given, "--hidden-size"), FLAG_FROM_PRESET);
    EXPECT_ERROR(parse("--preset gpt5"), "--preset gpt5 is not known; `bevatron help presets` lists them");
    EXPECT_ERROR(parse("--preset gpt2"),
                 "--preset gpt2 is not known; did you mean gpt2-124m? `bevatron help presets` lists them");
    EXPECT_ERROR(parse("--preset lama2-7b"), "did you mean llama2-7b?");
    EXPECT_ERROR(parse("--preset bert-base-uncased"), "did you mean bert-base?");
    struct buffer list = {0};
    config_list_presets(&list);
    EXPECT(strstr(list.data, "gpt3-175b                175B      96   12288     96       2048") != NULL);
    buffer_free(&list);
}

TEST(families) {
    EXPECT_OK(parse("--model llama --hidden-dropout 0.2"));
    EXPECT(config.model.form == CONFIG_GPT);
    EXPECT(config.model.normalization == NORM_RMS);
    EXPECT(config.model.swiglu && config.model.untie_embeddings_and_output_weights && config.model.disable_bias_linear);
    EXPECT(config.model.hidden_dropout == 0.2 && config.model.attention_dropout == 0);
    EXPECT_OK(parse("--model opt"));
    EXPECT(config.model.form == CONFIG_GPT);
    EXPECT(config.model.activation == ACTIVATION_RELU);
    EXPECT_OK(parse("--model roberta --sample-break-mode eos"));
    EXPECT(config.model.form == CONFIG_BERT);
    EXPECT_STRING(config.data.sample_break_mode, "eos");
    EXPECT(config.model.bert_no_binary_head && config.model.position_offset == 2);
    EXPECT_OK(parse("--preset bert-large --model roberta"));  // the user's flag overrides the preset
    EXPECT_INT(config.model.hidden_size, 1024);
    EXPECT_INT(config.model.num_token_types, 1);
}

TEST(pad_vocab) {
    static const int64_t cases[][4] = {
        {50257, 128, 1, 50304}, {50257, 128, 2, 50304}, {50257, 128, 8, 50304}, {128, 128, 1, 128}, {1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_OK(parse(""));
        config.model.make_vocab_size_divisible_by = cases[i][1];
        config.machine.tensor_model_parallel_size = cases[i][2];
        EXPECT_OK(config_pad_vocab(&config, cases[i][0]));
        EXPECT_INT(config.model.padded_vocab_size, cases[i][3]);
    }
    EXPECT_OK(parse("--padded-vocab-size 100"));
    EXPECT_OK(config_pad_vocab(&config, 99));
    EXPECT_INT(config.model.padded_vocab_size, 100);
    EXPECT_ERROR(config_pad_vocab(&config, 101), "the tokenizer has 101 tokens, but --padded-vocab-size is 100");
    EXPECT_ERROR(config_pad_vocab(&config, 0), "out of range");
}

static struct json *to_json(void) {
    struct buffer text = {0};
    struct json_writer writer = {.out = &text, .indent = 2};
    config_to_json(&config, &writer);
    struct json *object = NULL;
    EXPECT_OK(json_parse(&object, text.data, text.length, "config.json"));
    buffer_free(&text);
    return object;
}

TEST(json_round_trip) {
    EXPECT_OK(parse(
        "--preset gpt2-124m --norm-epsilon 1e-6 --ffn-hidden-size 1000 --micro-batch-size 1 --train-iters 10 --lr 1 "
        "--data-path d --vocab-file v.json --merge-file m.txt"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_OK(config_pad_vocab(&config, 50257));
    struct json *object = to_json();
    int64_t number = 0;
    double real = 0;
    EXPECT_OK(json_get_int(object, "padded_vocab_size", &number));
    EXPECT_INT(number, 50304);
    EXPECT_OK(json_get_double(object, "norm_epsilon", &real));
    EXPECT(real == 1e-6);
    EXPECT_INT(json_member(object, "save")->type, JSON_NULL);
    EXPECT_INT(json_member(object, "exit_interval")->type, JSON_NULL);
    EXPECT_INT(json_member(object, "mock_data")->type, JSON_FALSE);
    EXPECT_INT(json_member(object, "data_path")->type, JSON_ARRAY);

    // Into an empty run: the model and tokenizer, not the schedule; given flags are kept.
    EXPECT_OK(parse("--seq-length 512 --vocab-file other.json"));
    EXPECT_OK(config_from_json(&config, object));
    EXPECT_INT(config.model.num_layers, 12);
    EXPECT_INT(config.model.ffn_hidden_size, 1000);
    EXPECT_INT(config.run.seq_length, 512);
    EXPECT_INT(config.model.padded_vocab_size, 50304);
    EXPECT_INT(config.run.train_iters, 0);
    EXPECT_STRING(config.data.vocab_file, "other.json");
    EXPECT_STRING(config.data.merge_file, "m.txt");
    EXPECT_STRING(config.data.tokenizer_type, "GPT2BPETokenizer");
    EXPECT(config.model.norm_epsilon == 1e-6 && config.run.lr == 0);
    json_free(object);
}

// The whole object as a --config file gives the same run, whichever way its length is counted.
TEST(json_is_a_configuration_file) {
    static const char *const runs[] = {"--train-iters 10 --lr-warmup-fraction 0.1",
                                       "--train-samples 100 --lr-warmup-samples 10 --save x --save-interval 5",
                                       "--train-samples 100 --step-batch-size-schedule 0:4",
                                       "--train-samples 90 --weight-decay-incr-style linear --start-weight-decay 0 "
                                       "--end-weight-decay 0.5 --rampup-batch-size 1 1 10 --global-batch-size 4"};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        char *line =
            memory_printf("--preset gpt2-124m --micro-batch-size 1 --lr 1 --mock-data --vocab-size 100 %s", runs[i]);
        EXPECT_OK(parse(line));
        free(line);
        EXPECT_OK(config_validate(&config, 1));
        struct buffer before = {0}, after = {0};
        struct json_writer writer = {.out = &before}, again = {.out = &after};
        config_to_json(&config, &writer);
        config_free(&config);
        config_defaults(&config);
        EXPECT_OK(flags_read_text(config_command(), &config, "config.json", before.data, before.length));
        EXPECT_OK(config_validate(&config, 1));
        config_to_json(&config, &again);
        EXPECT_STRING(buffer_string(&after), buffer_string(&before));
        buffer_free(&before);
        buffer_free(&after);
    }
}

// The storage of gains is not part of the model, but matters to a resumed run.
TEST(json_of_stored_gains) {
    static const struct {
        const char *json;
        bool is_centered;
    } cases[] = {{"{\"apply_layernorm_1p\": true}", true},
                 {"{\"apply_layernorm_1p\": false}", false},
                 {"{\"apply_layernorm_1p\": null}", false},
                 {"{\"apply_layernorm_1p\": [true]}", false},
                 {"{}", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json *object = NULL;
        EXPECT_OK(parse(""));
        EXPECT_OK(json_parse(&object, cases[i].json, strlen(cases[i].json), "x"));
        EXPECT(config_json_is_centered(object) == cases[i].is_centered);
        EXPECT_OK(parse("--apply-layernorm-1p"));
        if (cases[i].is_centered)
            EXPECT_OK(config_check_storage(&config, object, "x"));
        else if (i == 3)
            EXPECT_ERROR(config_check_storage(&config, object, "x"),
                         "x: the configuration's \"apply_layernorm_1p\" is neither a number nor a text");
        else
            EXPECT_ERROR(config_check_storage(&config, object, "x"), "--apply-layernorm-1p is ");
        json_free(object);
    }
    EXPECT_OK(parse(""));
    struct json *object = NULL;
    EXPECT_OK(json_parse(&object, cases[0].json, strlen(cases[0].json), "x"));
    EXPECT_ERROR(config_check_storage(&config, object, "x"), "--apply-layernorm-1p is true there and false here;");
    EXPECT_OK(parse("--apply-layernorm-1p --optimizer sgd"));
    EXPECT_ERROR(config_check_storage(&config, object, "x"), "--optimizer is adam there and sgd here;");
    EXPECT_OK(parse(""));
    EXPECT_OK(config_from_json(&config, object));
    EXPECT(config.model.apply_layernorm_1p);
    json_free(object);
    EXPECT_OK(json_parse(&object, "[1]", 3, "x"));
    EXPECT(!config_json_is_centered(object));
    EXPECT_ERROR(config_check_storage(&config, object, "x"), "not a JSON object");
    json_free(object);
    config_free(&config);
}

TEST(json_of_others) {
    EXPECT_OK(parse("--num-layers 2 --hidden-size 8"));
    struct json *object = NULL;
    EXPECT_OK(parse(""));
    EXPECT_OK(json_parse(&object, "{\"num_layers\": [2]}", 19, "x"));
    EXPECT_ERROR(config_from_json(&config, object), "\"num_layers\" is neither a number nor a text");
    json_free(object);
    EXPECT_OK(json_parse(&object, "{\"num_layers\": -2}", 18, "x"));
    EXPECT_ERROR(config_from_json(&config, object), "--num-layers takes a whole number");
    json_free(object);
    EXPECT_OK(json_parse(&object, "[1]", 3, "x"));
    EXPECT_ERROR(config_from_json(&config, object), "not a JSON object");
    json_free(object);
    config_free(&config);
}

static int match_schedule(const char *text) {
    struct json *object = NULL;
    EXPECT_OK(json_parse(&object, text, strlen(text), "x"));
    int status = config_match_schedule(&config, object, "ckpt/config.json");
    json_free(object);
    return status;
}

TEST(schedules_of_others) {
    static const char *const bad[][2] = {
        {"{\"schedule\": {\"lr_decay_steps\": 1e300}}", "\"lr_decay_steps\" holds 1e300, which does not fit 64 bits"},
        {"{\"schedule\": {\"lr_decay_steps\": -1e300}}", "\"lr_decay_steps\""},
        {"{\"schedule\": {\"lr_decay_steps\": 9223372036854775807}}", "out of range"},
        {"{\"schedule\": {\"wd_incr_steps\": -1}}", "\"wd_incr_steps\" holds -1, which is out of range"},
        {"{\"schedule\": {\"lr_wsd_decay_steps\": 1.5}}", "expected a whole number"},
        {"{\"schedule\": {\"lr\": -1}}", "out of range"},
        {"{\"schedule\": {\"lr\": 1e999}}", "\"lr\""},
        {"{\"schedule\": {\"lr\": \"1\"}}", "\"lr\" holds a string, expected a number"},
        {"{\"schedule\": {\"lr_mult\": 7}}", "\"lr_mult\" does not hold a list of PATTERN=FACTOR"},
        {"{\"schedule\": {\"wd_mult\": [\"x=1\", \"x\"]}}", "\"wd_mult\" does not hold a list of PATTERN=FACTOR"},
        {"{\"schedule\": {\"lr_decay_style\": 7}}", "\"lr_decay_style\" holds a number, expected a string"},
        {"{\"schedule\": {\"lr_decay_style\": \"steep\"}}", "\"lr_decay_style\" holds \"steep\", which is not a style"},
    };
    EXPECT_OK(parse("--use-checkpoint-opt_param-scheduler --lr 0.5"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_ERROR(match_schedule(bad[i][0]), bad[i][1]);
        EXPECT(strstr(error_message(), "ckpt/config.json"));
        EXPECT(config.run.lr == 0.5 && strcmp(config.run.lr_decay_style, "linear") == 0);
    }
    EXPECT_OK(match_schedule("{\"schedule\": {\"lr\": null}}"));
    EXPECT_OK(match_schedule("{\"schedule\": {\"lr\": 2, \"lr_decay_steps\": 1e3, \"lr_decay_style\": \"cosine\"}}"));
    EXPECT(config.run.lr == 2 && config.run.lr_decay_steps == 1000 && strcmp(config.run.lr_decay_style, "cosine") == 0);
    EXPECT_OK(parse("--lr 0.5"));
    EXPECT_OK(match_schedule("{\"schedule\": {\"lr\": 0.5}}"));
    EXPECT_ERROR(match_schedule("{\"schedule\": {\"lr\": 0.25}}"), "lr is 0.25 there and 0.5 here.");
    // Features that are newer than a file were not used in it.
    EXPECT_OK(parse("--lr 0.5 --decoupled-lr 0.25"));
    EXPECT_ERROR(match_schedule("{\"schedule\": {\"lr\": 0.5}}"), ": decoupled_lr is 0 there and 0.25 here.");
    EXPECT_ERROR(match_schedule("{\"schedule\": {\"decoupled_lr\": null}}"), "decoupled_lr is 0 there and 0.25 here.");
    EXPECT_OK(match_schedule("{\"schedule\": {\"decoupled_lr\": 0.25}}"));
    EXPECT_OK(parse("--lr-mult a*=0.5 --lr-mult b=2 c=3 --apply-wd-to-qk-layernorm"));
    EXPECT_ERROR(
        match_schedule("{\"schedule\": {\"lr_mult\": [\"a*=0.5\"]}}"),
        "lr_mult is a*=0.5 there and a*=0.5 b=2 c=3 here, wd_mult is None there and *.[qk]_layernorm.*=1 here.");
    EXPECT_OK(match_schedule(
        "{\"schedule\": {\"lr_mult\": [\"a*=0.5\", \"b=2\", \"c=3\"], \"wd_mult\": [\"*.[qk]_layernorm.*=1\"]}}"));
    EXPECT_OK(parse("--lr-mult b=2 --use-checkpoint-opt_param-scheduler"));
    EXPECT_ERROR(match_schedule("{\"schedule\": {\"lr\": 0.5}}"), "or --lr-mult and --wd-mult of the checkpoint");
    EXPECT_OK(parse("--lr 0.5"));
    EXPECT_ERROR(match_schedule("{\"schedule\": {\"lr_decay_steps\": 960, \"lr_decay_style\": \"cosine\"}}"),
                 "lr_decay_style is cosine there and linear here, the learning rate decays over 960 samples there and "
                 "0 here (--train-samples)");
    // A longer run, another batch, and both: in iterations, which are what the user gave.
#define LENGTH "--preset gpt2-124m --mock-data --micro-batch-size 2 --vocab-size 100 --lr 0.5 "
#define SAVED "{\"global_batch_size\": 8, \"schedule\": {\"lr\": 0.5, \"lr_decay_steps\": 80}}"
    EXPECT_OK(parse(LENGTH "--global-batch-size 8 --train-iters 20"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_ERROR(match_schedule(SAVED),
                 "flags: the learning rate decays over 10 iterations there and 20 here (--train-iters). Give "
                 "--override-opt_param-scheduler");
    EXPECT_OK(parse(LENGTH "--global-batch-size 16 --train-iters 10"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_ERROR(match_schedule(SAVED), "flags: --global-batch-size is 8 there and 16 here. Give");
    EXPECT_OK(parse(LENGTH "--global-batch-size 16 --train-iters 10 --lr-decay-iters 5"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_OK(match_schedule(SAVED));
    EXPECT_OK(parse(LENGTH "--global-batch-size 16 --train-iters 30 --lr-decay-iters 25"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_ERROR(match_schedule(SAVED),
                 "over 10 iterations there and 25 here (--lr-decay-iters), --global-batch-size is 8 "
                 "there and 16 here. Give");
    EXPECT_OK(parse(LENGTH "--global-batch-size 16 --train-samples 160"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_ERROR(match_schedule(SAVED), "over 80 samples there and 160 here (--train-samples). Give");
    config_free(&config);
}

// A resumed run with other flags than it was started with, and one with the same.
TEST(changes_of_a_run) {
#define RUN "--preset gpt2-124m --micro-batch-size 2 --train-iters 9 --lr 0.1 --vocab-size 100 --adam-eps 1e-7 "
    struct buffer json = {0}, changes = {0};
    struct json_writer writer = {.out = &json};
    EXPECT_OK(parse(RUN "--data-path 0.3 a 0.7 b --split 9,1,0"));
    EXPECT_OK(config_validate(&config, 1));
    config_to_json(&config, &writer);
    config_list_changes(&config, buffer_string(&json), &changes);
    EXPECT_STRING(buffer_string(&changes), "");
    EXPECT_OK(parse(RUN "--data-path 0.3 ./a 0.7 .//b --split 9,1,0"));
    EXPECT_OK(config_validate(&config, 1));
    config_list_changes(&config, buffer_string(&json), &changes);
    EXPECT_STRING(buffer_string(&changes), "");
    EXPECT_OK(parse(RUN "--data-path 0.5 a 0.5 b --split 9,1,0 --seed 7 --train-iters 99 --threads 3 --bf16"));
    EXPECT_OK(config_validate(&config, 2));
    config_list_changes(&config, buffer_string(&json), &changes);
    EXPECT_STRING(buffer_string(&changes),
                  "--global-batch-size is 2 there and 4 here, --seed is 1234 there and 7 here, --bf16 is false there "
                  "and true here, --data-path is 0.3 a 0.7 b there and 0.5 a 0.5 b here");
    buffer_clear(&changes);
    EXPECT_OK(parse(RUN "--data-path 0.3 a 0.7 b --split 9,1,0 --num-experts 4 --moe-expert-capacity-factor 1.5 "
                        "--moe-router-score-function sigmoid --moe-router-enable-expert-bias "
                        "--moe-token-drop-policy position --moe-router-bias-update-rate 0.5"));
    EXPECT_OK(config_validate(&config, 1));
    config_list_changes(&config, buffer_string(&json), &changes);
    EXPECT_STRING(buffer_string(&changes),
                  "--moe-router-bias-update-rate is 0.001 there and 0.5 here, --moe-expert-capacity-factor is 0 there "
                  "and 1.5 here, --moe-token-drop-policy is probs there and position here");
    // Unknown members, and text that is not a configuration, are ignored.
    buffer_clear(&changes);
    EXPECT_OK(parse("--seed 8"));
    config_list_changes(&config, "{\"flag_of_tomorrow\": 1, \"seed\": 9}", &changes);
    EXPECT(strstr(buffer_string(&changes), "--seed is 9 there and 8 here") != NULL);
    config_list_changes(&config, "[]", &changes);
    buffer_free(&json);
    buffer_free(&changes);
    config_free(&config);
}

// A copy equals the original, including which flags were given, and outlives it.
TEST(copies) {
    struct config copy;
    struct buffer before = {0}, after = {0};
    EXPECT_OK(
        parse("--num-layers 3 --tokenizer-type NullTokenizer --data-path 0.3 a 0.7 b --recompute-modules core_attn "
              "--no-position-embedding --lr 1e-3"));
    config_dump(&config, false, &before);
    config_copy(&copy, &config);
    struct flag_table table = config_flag_table(0);
    EXPECT_OK(flag_set(&table, &config, "--tokenizer-type", "GPT2BPETokenizer", FLAG_FROM_COMMAND));
    EXPECT_OK(flag_set(&table, &config, "--data-path", "c", FLAG_FROM_COMMAND));
    EXPECT_OK(flag_set(&table, &config, "--seq-length", "77", FLAG_FROM_COMMAND));
    config_free(&config);
    config_dump(&copy, false, &after);
    EXPECT_STRING(buffer_string(&after), buffer_string(&before));
    EXPECT(flag_is_given(&copy.given, "--lr") && !flag_is_given(&copy.given, "--seq-length"));
    buffer_free(&before);
    buffer_free(&after);
    config_free(&copy);
}

TEST_MAIN(TEST_CASE(tables_are_sound), TEST_CASE(model_flags_are_offered_to_all),
          TEST_CASE(no_flag_of_any_release_is_unknown), TEST_CASE(defaults_are_megatrons), TEST_CASE(script_of_2020),
          TEST_CASE(other_names), TEST_CASE(presets), TEST_CASE(families), TEST_CASE(pad_vocab),
          TEST_CASE(json_round_trip), TEST_CASE(json_is_a_configuration_file), TEST_CASE(json_of_stored_gains),
          TEST_CASE(json_of_others), TEST_CASE(schedules_of_others), TEST_CASE(changes_of_a_run), TEST_CASE(copies))
