// Averages of checkpoints of a small GPT beside a loop in double, in any order of names; other models and bad lists.
#include "formats/average.h"

#include "base/memory.h"
#include "config/parse_line.h"
#include "formats/source_kind.h"
#include "store/temporary.h"
#include "tensor/half.h"
#include "test.h"
#include <math.h>

static const char MODEL[] = "--num-layers 1 --hidden-size 6 --num-attention-heads 2 --seq-length 5 --vocab-size 11 "
                            "--max-position-embeddings 7 --make-vocab-size-divisible-by 1 --train-iters 1 "
                            "--micro-batch-size 1 --lr 1e-3 --mock-data";

// Element n of tensor i: a few digits, so that sums in float would be rounded, and a large one now and then.
static float weight_of(int64_t iteration, size_t i, int64_t n) {
    double x = sin((double)(iteration * 131 + (int64_t)i * 17 + n * 3));
    return (float)(n % 7 == 0 ? x * 1e4 : n % 7 == 1 ? x * 1e-6 : x);
}

struct small_model {
    const char *flags;
    bool has_bf16, has_ema;
};

static int64_t count_of(const struct source_tensor *tensor) {
    int64_t count = 1;
    for (int k = 0; k < tensor->rank; k++)
        count *= tensor->shape[k];
    return count;
}

static void fill(struct checkpoint_tensor *tensor, const struct source_tensor *from, enum dtype dtype) {
    void *memory = memory_alloc((size_t)count_of(from) * sizeof(float));
    const int64_t *shape = from->shape;
    tensor->tensor = from->rank == 1   ? tensor_1d(memory, dtype, shape[0])
                     : from->rank == 2 ? tensor_2d(memory, dtype, shape[0], shape[1])
                                       : tensor_3d(memory, dtype, shape[0], shape[1], shape[2]);
}

// Saves weights of this iteration: in fp32; or in bf16 with masters and, or moving averages in fp32.
static void save(const char *folder, int64_t iteration, struct small_model model) {
    struct model_source source = {0};
    config_defaults(&source.config);
    EXPECT_OK(parse_line(&source.config, model.flags));
    source.config.model.padded_vocab_size = 11;
    EXPECT_OK(source_build(&source));
    struct checkpoint_tensor *tensors = memory_alloc(2 * source.count * sizeof tensors[0]);
    struct checkpoint_tensor *others = tensors + source.count;
    for (size_t i = 0; i < source.count; i++) {
        const struct source_tensor *from = &source.tensors[i];
        fill(&tensors[i], from, model.has_bf16 ? DTYPE_BF16 : DTYPE_F32);
        fill(&others[i], from, DTYPE_F32);
        tensors[i].name = from->name;
        others[i].name = memory_printf("%s.%s", model.has_ema ? "ema" : "master", from->name);
        for (int64_t n = 0; n < count_of(from); n++) {
            float x = weight_of(iteration, i, n);
            ((float *)others[i].tensor.data)[n] = x;
            if (model.has_bf16)
                ((uint16_t *)tensors[i].tensor.data)[n] = half_to_bf16(x);
            else
                ((float *)tensors[i].tensor.data)[n] = model.has_ema ? 0 : x;
        }
    }
    struct buffer json = {0};
    struct json_writer writer = {.out = &json};
    config_to_json(&source.config, &writer);
    struct checkpoint_state state = {.iteration = iteration, .loss_scale = 1, .config_json = json.data};
    bool has_optimizer = model.has_bf16 || model.has_ema;
    EXPECT_OK(checkpoint_save(&(struct checkpoint_save){.folder = folder,
                                                        .model = tensors,
                                                        .model_count = source.count,
                                                        .optimizer = has_optimizer ? others : NULL,
                                                        .optimizer_count = has_optimizer ? source.count : 0,
                                                        .state = &state}));
    for (size_t i = 0; i < 2 * source.count; i++) {
        free(tensors[i].tensor.data);
        if (i >= source.count)
            free((char *)tensors[i].name);
    }
    free(tensors);
    buffer_free(&json);
    config_free(&source.config);
    param_list_free(&source.params);
    free(source.tensors);
}

// The model there has the averages of these iterations.
static void expect_average(const char *folder, const int64_t *iterations, size_t count, bool is_bf16) {
    struct model_source source;
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = folder, .step = -1}));
    for (size_t i = 0; i < source.count; i++) {
        unsigned char *found = memory_alloc(source.tensors[i].bytes);
        EXPECT_OK(model_source_read(&source, i, found));
        EXPECT(source.tensors[i].dtype == (is_bf16 ? DTYPE_BF16 : DTYPE_F32));
        for (int64_t n = 0; n < count_of(&source.tensors[i]); n++) {
            double sum = 0;
            for (size_t k = 0; k < count; k++)
                sum += (double)weight_of(iterations[k], i, n);
            float mean = (float)(sum / (double)count);
            if (is_bf16)
                EXPECT_INT(((uint16_t *)found)[n], half_to_bf16(mean));
            else
                EXPECT(((float *)found)[n] == mean);
        }
        free(found);
    }
    model_source_close(&source);
}

TEST(the_last_ones) {
    struct temporary at = temporary_create();
    char *run = file_join(at.path, "run"), *out = file_join(at.path, "out");
    for (int64_t i = 10; i <= 40; i += 10)
        save(run, i, (struct small_model){.flags = MODEL});
    struct average_list list = {0};
    EXPECT_OK(average_list_add(&list, run, 3));
    struct average average = {.list = &list, .folder = out};
    EXPECT_OK(average_write(&average));
    EXPECT_INT(average.iteration, 40);
    EXPECT_INT((int64_t)average.from_masters, 0);
    expect_average(out, (int64_t[]){20, 30, 40}, 3, false);
    average_list_free(&list);
    EXPECT_ERROR(average_list_add(&list, run, 5), "has 4 checkpoints, not 5; give --last 4");
    EXPECT_ERROR(average_list_add(&list, at.path, 1), "has no checkpoint");
    average_list_free(&list);
    free(run);
    free(out);
    temporary_remove(&at);
}

// Biases that balance experts stay in fp32, have no masters and no moving averages, and are averaged like the rest.
TEST(biases_of_routers) {
    static const char flags[] = "--num-experts 4 --moe-router-score-function sigmoid --moe-router-enable-expert-bias "
                                "--num-layers 2 --moe-layer-freq [0,1] ";
    struct temporary at = temporary_create();
    char *run = file_join(at.path, "run"), *out = file_join(at.path, "out");
    char *all = memory_printf("%s %s", MODEL, flags);
    for (int64_t i = 1; i <= 2; i++)
        save(run, i, (struct small_model){.flags = all});
    struct average_list list = {0};
    EXPECT_OK(average_list_add(&list, run, 2));
    EXPECT_OK(average_write(&(struct average){.list = &list, .folder = out}));
    expect_average(out, (int64_t[]){1, 2}, 2, false);
    struct model_source source;
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = out, .step = -1}));
    EXPECT_INT((int64_t)source.biases, 1);
    EXPECT_STRING(source.tensors[source.count - 1].name, "decoder.layers.1.mlp.router.expert_bias");
    model_source_close(&source);
    average_list_free(&list);
    free(all);
    free(run);
    free(out);
    temporary_remove(&at);
}

// In any order, with and without a slash at the end, from the masters of bf16 runs.
TEST(named_ones_in_any_order) {
    struct temporary at = temporary_create();
    char *run = file_join(at.path, "run"), *other = file_join(at.path, "other/");
    for (int64_t i = 1; i <= 3; i++)
        save(i == 2 ? other : run, i, (struct small_model){.flags = MODEL, .has_bf16 = true});
    char *first = checkpoint_path(run, 1), *third = file_join(run, "iter_0000003/");
    struct average_list list = {0};
    char *names[3] = {third, other, first}, *out[2] = {file_join(at.path, "a"), file_join(at.path, "b")};
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < 3; i++)
            EXPECT_OK(average_list_add(&list, names[way ? 2 - i : i], 1));
        struct average average = {.list = &list, .folder = out[way], .has_dtype = way, .dtype = DTYPE_F32};
        EXPECT_OK(average_write(&average));
        EXPECT_INT((int64_t)average.from_masters, 3);
        expect_average(out[way], (int64_t[]){1, 2, 3}, 3, !way);
        if (way == 1)
            EXPECT_ERROR(average_list_add(&list, first, 1), "is named twice");
        average_list_free(&list);
    }
    EXPECT_ERROR(average_list_add_step(&list, run, 7), "there is no checkpoint");
    average_list_free(&list);
    free(run), free(other), free(first), free(third), free(out[0]), free(out[1]);
    temporary_remove(&at);
}

TEST(moving_averages) {
    struct temporary at = temporary_create();
    char *run = file_join(at.path, "run"), *out = file_join(at.path, "out"), *plain = file_join(at.path, "plain");
    save(run, 5, (struct small_model){.flags = MODEL, .has_ema = true});
    save(plain, 5, (struct small_model){.flags = MODEL, .has_bf16 = true});
    struct average_list list = {0};
    EXPECT_OK(average_list_add(&list, run, 1));
    struct average average = {.list = &list, .folder = out, .is_ema = true};
    EXPECT_OK(average_write(&average));
    expect_average(out, (int64_t[]){5}, 1, false);
    average_list_free(&list);
    EXPECT_OK(average_list_add(&list, plain, 1));
    average.folder = run;
    EXPECT_ERROR(average_write(&average), "keeps no moving average of ");
    average_list_free(&list);
    free(run), free(out), free(plain);
    temporary_remove(&at);
}

TEST(other_models_are_refused) {
    struct temporary at = temporary_create();
    char *run = file_join(at.path, "run"), *other = file_join(at.path, "other"), *out = file_join(at.path, "out");
    char *wider = memory_printf("%s --ffn-hidden-size 20", MODEL), *deeper = memory_printf("%s --num-layers 2", MODEL);
    save(run, 1, (struct small_model){.flags = MODEL});
    save(other, 2, (struct small_model){.flags = wider});
    save(other, 3, (struct small_model){.flags = deeper});
    for (int64_t i = 2; i <= 3; i++) {
        struct average_list list = {0};
        EXPECT_OK(average_list_add(&list, run, 1));
        EXPECT_OK(average_list_add_step(&list, other, i));
        struct average average = {.list = &list, .folder = out};
        EXPECT_ERROR(average_write(&average), i == 2 ? "--ffn-hidden-size" : "num-layers is 1 there and 2 here");
        EXPECT(!file_exists(out));
        average_list_free(&list);
    }
    free(run), free(other), free(out), free(wider), free(deeper);
    temporary_remove(&at);
}

TEST_MAIN(TEST_CASE(the_last_ones), TEST_CASE(biases_of_routers), TEST_CASE(named_ones_in_any_order),
          TEST_CASE(moving_averages), TEST_CASE(other_models_are_refused))
