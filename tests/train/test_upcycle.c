// Experts made of a dense checkpoint: copies of its MLP, scaled where weights of routers do not add up to 1; routers
// are drawn as in a new run.
#include "base/file.h"
#include "lab.h"
#include "train/state.h"

#include <math.h>
#include <unistd.h>

#define MODEL                                                                                                          \
    "--num-layers 3 --hidden-size 24 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "            \
    "--micro-batch-size 2 --global-batch-size 2 --ffn-hidden-size 20 --padded-vocab-size 37 "

static char folder[64];

// The dense counterpart of a name; to be freed.
static char *dense_name(const char *name) {
    const char *at = strstr(name, ".experts");
    return at ? memory_printf("%.*s%s", (int)(at - name), name, at + strlen(".experts")) : memory_string(name);
}

// Biases are no weights of zero: all values differ.
static void fill(struct step *step) {
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        float *values = param->value.data;
        for (int64_t n = 0; n < tensor_count(param->value); n++)
            values[n] = (float)sin((double)(n + 1000 * i));
    }
}

static void compare(const struct step *mixture, const struct step *dense, const struct step *drawn, double scale) {
    for (int i = 0; i < step_params(mixture)->count; i++) {
        const struct param *param = step_params(mixture)->items[i];
        char *name = dense_name(param->name);
        bool is_expert = strstr(param->name, ".experts"), is_router = strstr(param->name, ".router");
        const struct param *from = param_find(step_params(is_router ? drawn : dense), name);
        EXPECT(from != NULL);
        double by = is_expert && !strstr(name, "linear_fc2.bias") ? scale : 1;
        const float *values = param->value.data, *want = from ? from->value.data : values;
        int64_t count = from ? tensor_count(from->value) : 1;
        EXPECT_INT(tensor_count(param->value), is_expert ? 4 * count : count);
        for (int64_t n = 0; n < tensor_count(param->value); n++)
            if (!(fabs((double)values[n] - by * (double)want[n % count]) <= 2e-7))
                test_fail("%s: element %d is %.8f, expected %.8f", param->name, (int)n, (double)values[n],
                          by * (double)want[n % count]);
        free(name);
    }
}

static void upcycle(const char *mlp, const char *router, double scale) {
    struct train_lab dense, mixture, drawn;
    char *flags = memory_printf(MODEL "%s --save %s", mlp, folder);
    struct progress_state at = {.iteration = 1};
    lab_open(&dense, flags);
    fill(dense.step);
    EXPECT_OK(state_save(&(struct run_state){.step = dense.step, .config = &dense.config, .progress = &at}));
    free(flags);
    flags = memory_printf(MODEL "%s %s --num-experts 4 --moe-layer-freq [1,0,1] --load %s", mlp, router, folder);
    char *path = checkpoint_path(folder, 1), *line = memory_printf("%s --moe-use-upcycling", flags);
    lab_open(&drawn, flags);
    lab_open(&mixture, line);
    EXPECT_OK(upcycle_load(&(struct run_state){.step = mixture.step, .config = &mixture.config}, path));
    compare(mixture.step, dense.step, drawn.step, scale);
    // Of another width it is another model.
    mixture.config.model.ffn_hidden_size++;
    EXPECT_ERROR(upcycle_load(&(struct run_state){.step = mixture.step, .config = &mixture.config}, path),
                 "--ffn-hidden-size is 20 there and 21 here");
    lab_close(&dense);
    lab_close(&mixture);
    lab_close(&drawn);
    EXPECT_OK(file_remove_tree(folder));
    free(path);
    free(line);
    free(flags);
}

TEST(copies) {
    upcycle("--swiglu", "", 1);
    upcycle("", "--moe-router-score-function sigmoid", 1);
}

// 2 of 4 experts are chosen: the ratio is 2.
TEST(scaled_copies) {
    upcycle("--swiglu", "--moe-router-pre-softmax", cbrt(2));
    upcycle("--squared-relu", "--moe-router-pre-softmax", cbrt(2));
    upcycle("", "--moe-router-pre-softmax", sqrt(2));
}

int main(void) {
    snprintf(folder, sizeof folder, "/tmp/test_upcycle_%ld", (long)getpid());
    const struct test_case cases[] = {TEST_CASE(copies), TEST_CASE(scaled_copies)};
    return test_main(cases, sizeof cases / sizeof cases[0]);
}
