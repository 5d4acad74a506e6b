// The tasks that this program knows, one record each. See struct task_record.
#include "evaluate/internal.h"

#define HUB "https://huggingface.co/datasets/"
#define ACC METRIC_BIT(ACC)
#define ACC_AND_NORM METRIC_BIT(ACC) | METRIC_BIT(ACC_NORM)
#define LETTERS "A", "B", "C", "D"

// Tasks without public answers of their test split. The harness then draws one example more, in case it draws the
// document itself, even from another split.
#define VALIDATED .split = "validation", .shots_split = "train", .draws_one_more = true
// ARC and OpenBookQA differ in their question.
#define LABELLED                                                                                                       \
    .choices = {"{choices.text[]}"}, .labels = {"{choices.label[]}"}, .answer = "{answerKey|lstrip}",                  \
    .metrics = ACC_AND_NORM
#define ARC(part)                                                                                                      \
    .address = HUB "allenai/ai2_arc (" part ")", .split = "test", .shots_split = "train",                              \
    .context = "Question: {question}\nAnswer:", LABELLED
#define LAMBADA                                                                                                        \
    .kind = TASK_ENDING, .split = "test", .context = "{text|all_but_last_word}", .continuation = " {text|last_word}",  \
    .metrics = METRIC_BIT(PERPLEXITY) | METRIC_BIT(ACC)

// The 22 tasks of CORE (DataComp-LM, 2024) from nanochat's bundle, in its order and with its baselines.
#define CORE(short_name, file, number_of_shots, chance)                                                                \
    .name = "core_" short_name, .data = "core/" file,                                                                  \
    .address = "https://karpathy-public.s3.us-west-2.amazonaws.com/eval_bundle.zip (" file ".jsonl)",                  \
    .shots = number_of_shots, .baseline = chance, .is_core = true, .has_fixed_shots = true,                            \
    .metrics = METRIC_BIT(ACC) | METRIC_BIT(CENTERED)
#define CORE_CHOICES .kind = TASK_CHOICES, .context = "{query}", .choices = {"{choices[]}"}, .answer = "{gold}"
#define CORE_CONTEXTS                                                                                                  \
    .kind = TASK_CONTEXTS, .choices = {"{context_options[]}"}, .continuation = "{continuation}", .answer = "{gold}"
#define CORE_ENDING .kind = TASK_ENDING, .context = "{context|strip}", .continuation = "{continuation}"
#define CORE_ANSWER .delimiter = "\nAnswer: "

const struct task_record task_rows[] = {
    {.name = "hellaswag",
     .address = HUB "Rowan/hellaswag",
     VALIDATED,
     .filter = "hellaswag",
     .context = "{activity_label}: {ctx_a} {ctx_b|capitalize}",
     .choices = {"{endings[]}"},
     .answer = "{label}",
     .metrics = ACC_AND_NORM},
    {.name = "lambada_openai", .address = HUB "EleutherAI/lambada_openai (default)", .shots_split = "test", LAMBADA},
    {.name = "lambada_standard", .address = HUB "cimec/lambada", .shots_split = "validation", LAMBADA},
    {.name = "arc_easy", ARC("ARC-Easy")},
    {.name = "arc_challenge", ARC("ARC-Challenge")},
    {.name = "piqa",
     .address = HUB "baber/piqa",
     VALIDATED,
     .context = "Question: {goal}\nAnswer:",
     .choices = {"{sol1}", "{sol2}"},
     .answer = "{label}",
     .metrics = ACC_AND_NORM},
    {.name = "winogrande",
     .address = HUB "allenai/winogrande (winogrande_xl)",
     .kind = TASK_CONTEXTS,
     VALIDATED,
     .choices = {"{sentence|before:_}{option1}", "{sentence|before:_}{option2}"},
     .continuation = "{sentence|after:_|strip}",
     .answer = "{answer}",
     .labels = {"1", "2"},
     .metrics = ACC},
    {.name = "openbookqa",
     .address = HUB "allenai/openbookqa (main)",
     .split = "test",
     .shots_split = "train",
     .context = "{question_stem}",
     LABELLED},
    {.name = "boolq",
     .address = HUB "aps/super_glue (boolq)",
     VALIDATED,
     .context = "{passage}\nQuestion: {question}?\nAnswer:",
     .choices = {"no", "yes"},
     .answer = "{label}",
     .metrics = ACC},
    {.name = "sciq",
     .address = HUB "allenai/sciq",
     .split = "test",
     .shots_split = "train",
     .context = "{support|lstrip}\nQuestion: {question}\nAnswer:",
     .choices = {"{distractor1}", "{distractor2}", "{distractor3}", "{correct_answer}"},
     .answer = "3",
     .metrics = ACC_AND_NORM},
    {.name = "commonsense_qa",
     .address = HUB "tau/commonsense_qa",
     VALIDATED,
     .context = "Question: {question|strip}\nA. {choices.text.0}\nB. {choices.text.1}\nC. {choices.text.2}\n"
                "D. {choices.text.3}\nE. {choices.text.4}\nAnswer:",
     .choices = {LETTERS, "E"},
     .labels = {LETTERS, "E"},
     .answer = "{answerKey}",
     .metrics = ACC},
    {.name = "mmlu",
     .address = HUB "cais/mmlu (all)",
     .split = "test",
     .shots_split = "dev",
     .takes_first_shots = true,
     .group = "{subject}",
     .description = "The following are multiple choice questions (with answers) about {subject|spaces}.\n\n",
     .context = "{question|strip}\nA. {choices.0}\nB. {choices.1}\nC. {choices.2}\nD. {choices.3}\nAnswer:",
     .choices = {LETTERS},
     .answer = "{answer}",
     .metrics = ACC},
    {.name = "wikitext",
     .address = HUB "EleutherAI/wikitext_document_level (wikitext-2-raw-v1)",
     .kind = TASK_ROLLING,
     .split = "test",
     .has_fixed_shots = true,
     .context = "{page|wikitext}",
     .counted = "{page}",
     .metrics = METRIC_BIT(WORD_PERPLEXITY) | METRIC_BIT(BYTE_PERPLEXITY) | METRIC_BIT(BITS_PER_BYTE)},
    {CORE("hellaswag_zeroshot", "hellaswag", 0, 25), CORE_CHOICES},
    {CORE("jeopardy", "jeopardy_all", 10, 0), CORE_ENDING, CORE_ANSWER},
    {CORE("bigbench_qa_wikidata", "bigbench_qa_wikidata", 10, 0), CORE_ENDING},
    {CORE("arc_easy", "arc_easy", 10, 25), CORE_CHOICES, CORE_ANSWER},
    {CORE("arc_challenge", "arc_challenge", 10, 25), CORE_CHOICES, CORE_ANSWER},
    {CORE("copa", "copa", 0, 50), CORE_CHOICES},
    {CORE("commonsense_qa", "commonsense_qa", 10, 20), CORE_CHOICES},
    {CORE("piqa", "piqa", 10, 50), CORE_CHOICES, CORE_ANSWER},
    {CORE("openbook_qa", "openbook_qa", 0, 25), CORE_CHOICES},
    {CORE("lambada_openai", "lambada_openai", 0, 0), CORE_ENDING},
    {CORE("hellaswag", "hellaswag", 10, 25), CORE_CHOICES},
    {CORE("winograd", "winograd_wsc", 0, 50), CORE_CONTEXTS},
    {CORE("winogrande", "winogrande", 0, 50), CORE_CONTEXTS},
    {CORE("bigbench_dyck_languages", "bigbench_dyck_languages", 10, 0), CORE_ENDING},
    {CORE("agi_eval_lsat_ar", "agi_eval_lsat_ar", 3, 20), CORE_CHOICES},
    {CORE("bigbench_cs_algorithms", "bigbench_cs_algorithms", 10, 0), CORE_ENDING},
    {CORE("bigbench_operators", "bigbench_operators", 10, 0), CORE_ENDING},
    {CORE("bigbench_repeat_copy_logic", "bigbench_repeat_copy_logic", 10, 0), CORE_ENDING},
    {CORE("squad", "squad", 10, 0), CORE_ENDING},
    {CORE("coqa", "coqa", 0, 0), CORE_ENDING},
    {CORE("boolq", "boolq", 10, 62), CORE_CHOICES, CORE_ANSWER},
    {CORE("bigbench_language_identification", "bigbench_language_identification", 10, 9.1), CORE_CHOICES},
    {0},
};
