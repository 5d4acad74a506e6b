// Lines and JSON objects of ICT's evaluations. See evaluate_ict.h.
#include "cli/evaluate_ict.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>

struct ict_number {
    char name[32];
    double value;
    int decimals;
};
enum { MOST_NUMBERS = OPS_MOST_TOPS + 2 };

static int add_tops(struct ict_number *numbers, const int64_t *tops, const double *accuracies, int count) {
    for (int i = 0; i < count; i++) {
        numbers[i] = (struct ict_number){.value = 100 * accuracies[i], .decimals = 4};
        snprintf(numbers[i].name, sizeof numbers[i].name, "top%" PRId64 "_acc", tops[i]);
    }
    return count;
}

static void print_numbers(const struct ict_number *numbers, int count, bool is_json) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    if (is_json)
        json_begin_object(&w);
    for (int i = 0; i < count; i++) {
        if (!is_json) {
            buffer_printf(&out, "%s%s %.*f", i > 0 ? " | " : "", numbers[i].name, numbers[i].decimals,
                          numbers[i].value);
            continue;
        }
        json_key(&w, numbers[i].name);
        if (numbers[i].decimals > 0)
            json_double(&w, numbers[i].value);
        else
            json_int(&w, (int64_t)numbers[i].value);
    }
    if (is_json)
        json_end_object(&w);
    puts(buffer_string(&out));
    buffer_free(&out);
}

void evaluate_ict_print_loss(const struct config *config, const struct evaluation *result, bool is_json) {
    struct ict_number numbers[MOST_NUMBERS] = {{"loss", result->loss, 6}, {"samples", (double)result->samples, 0}};
    int64_t tops[OPS_MOST_TOPS];
    for (int i = 0; i < result->tops; i++)
        tops[i] = config_top(config, i);
    print_numbers(numbers, 2 + add_tops(numbers + 2, tops, result->accuracies, result->tops), is_json);
}

void evaluate_ict_print_retrieval(const struct retrieval *asked, const struct retrieval_result *result, bool is_json) {
    struct ict_number numbers[MOST_NUMBERS] = {{"blocks", (double)result->blocks, 0},
                                               {"queries", (double)result->queries, 0}};
    print_numbers(numbers, 2 + add_tops(numbers + 2, asked->tops, result->accuracies, asked->top_count), is_json);
}

void evaluate_ict_tops(struct retrieval *retrieval, const struct config *config) {
    static const int64_t usual[] = {1, 5, 20, 100};
    int64_t given = config->run.retriever_report_topk_accuracies.count;
    retrieval->top_count = given > 0 ? (int)given : (int)(sizeof usual / sizeof usual[0]);
    for (int i = 0; i < retrieval->top_count; i++)
        retrieval->tops[i] = given > 0 ? config_top(config, i) : usual[i];
}
