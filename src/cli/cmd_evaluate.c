// bevatron evaluate: loss and perplexity of a checkpoint on a dataset or a text file; cloze accuracy.
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "cli/commands.h"
#include "cli/saved_model.h"
#include "cli/session.h"
#include "config/config.h"
#include "config/flag_rows.h"
#include "data/extract/inputs.h"
#include "data/extract/reader.h"
#include "data/tokenizer/tokenizer.h"
#include "evaluate/detokenize.h"
#include "evaluate/tasks.h"
#include "plan/setup.h"
#include "train/automatic.h"
#include "train/evaluate.h"
#include "train/datasets.h"
#include "train/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- retrieval by an ICT model ----

// Output of `evaluate` for ICT: the loss over whole batches, or the retrieval check over all blocks.

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
    OWNED_BY(buffer_free) struct buffer out = {0};
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
}

static void evaluate_ict_print_loss(const struct config *config, const struct evaluation *result, bool is_json) {
    struct ict_number numbers[MOST_NUMBERS] = {{"loss", result->mean.loss, 6}, {"samples", (double)result->samples, 0}};
    int64_t tops[OPS_MOST_TOPS];
    for (int i = 0; i < result->mean.tops; i++)
        tops[i] = config_top(config, i);
    print_numbers(numbers, 2 + add_tops(numbers + 2, tops, result->mean.accuracies, result->mean.tops), is_json);
}

static void evaluate_ict_print_retrieval(const struct retrieval *asked, const struct retrieval_result *result,
                                         bool is_json) {
    struct ict_number numbers[MOST_NUMBERS] = {{"blocks", (double)result->blocks, 0},
                                               {"queries", (double)result->queries, 0}};
    print_numbers(numbers, 2 + add_tops(numbers + 2, asked->tops, result->accuracies, asked->top_count), is_json);
}

// The numbers of --retriever-report-topk-accuracies, or the usual ones.
static void evaluate_ict_tops(struct retrieval *retrieval, const struct config *config) {
    static const int64_t usual[] = {1, 5, 20, 100};
    int64_t given = config->run.retriever_report_topk_accuracies.count;
    retrieval->top_count = given > 0 ? (int)given : (int)(sizeof usual / sizeof usual[0]);
    for (int i = 0; i < retrieval->top_count; i++)
        retrieval->tops[i] = given > 0 ? config_top(config, i) : usual[i];
}

// ---- the command ----

struct evaluate_options {
    struct flag_given given;
    char *text;
    bool wikitext;
    int64_t overlapping_eval;
    char *cloze;
    bool strict_lambada;
    bool retrieval;
    int64_t max_samples;
    char *tasks;
    char *task_data;
    char *task_file;
    char *task_documents;
    int64_t tasks_limit;
    int64_t num_shots;
    bool json;
    struct config config;
};

#define FLAG_STRUCT struct evaluate_options
enum { TEXT_LIMIT_BYTES = 1 << 30 };

static const struct flag own_flags[] = {
    GROUP("Evaluation"),
    TEXT("--text", text, NULL, "FILE",
         "evaluate a plain text file instead of --data-path; prints token and word perplexity"),
    SWITCH("--wikitext", wikitext,
           "treat --text as WikiText: remove the spaces around punctuation and count words as Megatron's WIKITEXT103"),
    INT("--overlapping-eval", overlapping_eval, "0", 0, FLAG_ENDLESS,
        "stride between samples of --text in tokens; a smaller one gives more context. 0 for no overlap; Megatron's "
        "default is 32"),
    TEXT("--cloze", cloze, NULL, "FILE",
         "print the accuracy of the last token of each text in a JSON Lines file (see --json-keys), as LAMBADA is "
         "scored"),
    SWITCH("--strict-lambada", strict_lambada, "with --cloze: require the whole last word, encoded by itself"),
    SWITCH("--retrieval", retrieval,
           "ICT: embed all blocks of --data-path and print how often a query's block is among the K best of them (see "
           "--retriever-report-topk-accuracies; default: 1 5 20 100)"),
    TEXT(
        "--tasks", tasks, NULL, "NAME,…",
        "score tasks as lm-evaluation-harness does: hellaswag, lambada_openai, arc_easy, mmlu, wikitext, core, …; list "
        "prints all names"),
    TEXT("--task-data", task_data, NULL, "FOLDER", "with --tasks: the public files, as TASK/SPLIT.jsonl"),
    TEXT("--task-file", task_file, NULL, "FILE", "with --tasks: tasks of your own, one JSON object per line"),
    INT("--tasks-limit", tasks_limit, "0", 0, FLAG_ENDLESS, "with --tasks: documents of each task; 0 for all"),
    INT("--num-shots", num_shots, "-1", -1, 1024,
        "with --tasks: examples in a prompt; -1 for the task's own number, mostly 0"),
    TEXT("--task-documents", task_documents, NULL, "FILE",
         "with --tasks: write every document's log-likelihoods to this file, one JSON object per line"),
    INT("--max-samples", max_samples, "0", 0, FLAG_ENDLESS, "stop after this many samples; 0 for all"),
    SWITCH("--json", json, "print the result as one JSON object"),
};

// Sums and counts of the loss; words are counted for texts only.
struct subject {
    struct datasets datasets;
    struct token_list ids;
    struct token_text text;
    struct sample_source source;
    int64_t words;
    int64_t counted_words;  // divisor of the loss: Megatron omits the first word, as the first token is
};

static int64_t count_words(const char *text, size_t length) {
    int64_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < length; i++) {
        bool is_blank = text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');
        words += !is_blank && !inside;
        inside = !is_blank;
    }
    return words;
}

// The text of a file or an address, decompressed.
static int read_text(struct buffer *text, const char *path) {
    enum { STEP = 1 << 16 };
    struct reader *reader;
    int64_t got = 1;
    TRY(content_check_name(path));
    TRY(reader_open(&reader, path));
    for (; got > 0 && text->length <= TEXT_LIMIT_BYTES; text->length += got > 0 ? (size_t)got : 0) {
        buffer_reserve(text, STEP);
        got = reader_read(reader, text->data + text->length, STEP);
    }
    reader_close(reader);
    if (got > 0)
        return error_set("%s has more than %d bytes of text; give it as a dataset with --data-path", path,
                         TEXT_LIMIT_BYTES);
    return got < 0 ? -1 : content_check(path, path, (const unsigned char *)buffer_string(text), text->length);
}

static int open_text(struct subject *subject, const struct evaluate_options *options,
                     const struct tokenizer *tokenizer) {
    if (!tokenizer)
        return error_set_code(EXIT_CODE_USAGE, "--text needs the tokenizer: give --vocab-file and --merge-file");
    const char *end = strrchr(options->text, '.');
    if (end && (strcmp(end, ".jsonl") == 0 || strcmp(end, ".ndjson") == 0))
        log_warn_once("--text takes %s as it stands, names and braces too; the texts in it are a dataset after "
                      "`bevatron preprocess`, for --data-path",
                      options->text);
    struct buffer text = {0};
    int status = read_text(&text, options->text);
    subject->counted_words = subject->words = count_words(buffer_string(&text), text.length);
    if (options->wikitext) {
        subject->words = detokenize_count_words(buffer_string(&text), text.length);
        subject->counted_words = subject->words > 1 ? subject->words - 1 : 1;
        detokenize_wikitext(&text);
    }
    if (status == 0) {
        struct tokenizer_encoder *encoder;
        status = tokenizer_encoder_create(&encoder, tokenizer);
        struct phase *phase = phase_begin("tokenizing the text");
        if (status == 0)
            status = tokenizer_encode(encoder, buffer_string(&text), text.length, &subject->ids);
        phase_end(phase);
        tokenizer_encoder_free(encoder);
    }
    buffer_free(&text);
    int64_t seq_length = options->config.run.seq_length, stride = options->overlapping_eval;
    subject->text = (struct token_text){.ids = subject->ids.ids,
                                        .count = subject->ids.count,
                                        .seq_length = seq_length,
                                        .stride = stride > 0 && stride < seq_length ? stride : seq_length};
    subject->source = token_text_source(&subject->text);
    subject->source.name = options->text;
    if (status == 0 && subject->ids.count < 2)
        status = error_set_code(
            EXIT_CODE_BAD_DATA,
            "%s has %lld tokens, too few: the loss is taken over all tokens but the first; give a file with more text",
            options->text, (long long)subject->ids.count);
    return status;
}

// One epoch of the whole dataset; with --split only of its validation part.
// Text is tokenized first.
static int open_samples(struct subject *subject, struct config *config, const struct session *session,
                        const struct tokenizer *tokenizer) {
    struct text_data texts;
    OWNED char *user_cache = session_user_cache("text");
    comm_patience_begin(session->mesh.all, "tokenizing the text");
    int status = text_data_open(&texts, &(struct text_data_options){.config = config,
                                                                    .mesh = &session->mesh,
                                                                    .local_rank = session->place.local_rank,
                                                                    .user_cache = user_cache});
    TRY(status);
    comm_patience_end(session->mesh.all);
    struct phase *phase = phase_begin("opening the data and building its sample index");
    status = datasets_open_epoch(&subject->datasets, &(struct datasets_options){.config = config,
                                                                                .mesh = &session->mesh,
                                                                                .local_rank = session->place.local_rank,
                                                                                .tokenizer = tokenizer,
                                                                                .texts = &texts});
    phase_end(phase);
    text_data_close(&texts);
    return status;
}

static int open_dataset(struct subject *subject, struct config *config, const struct session *session,
                        const struct tokenizer *tokenizer) {
    TRY(open_samples(subject, config, session, tokenizer));
    if (!subject->datasets.corpora[SPLIT_VALID] && config->data.split && config->data.data_path.count > 0)
        return error_set_code(
            EXIT_CODE_USAGE,
            "--split %s leaves nothing of --data-path for validation, its second share, which is what "
            "is evaluated; raise that share, or leave out --split to evaluate all of the data",
            config->data.split);
    if (!subject->datasets.corpora[SPLIT_VALID])
        return error_set_code(EXIT_CODE_USAGE,
                              "give the dataset or text to evaluate with --data-path, or a file with --text");
    subject->source = subject->datasets.sources[SPLIT_VALID];
    return 0;
}

static void print_result(const struct evaluate_options *options, const struct subject *subject,
                         const struct evaluation *result) {
    if (options->config.model.form == CONFIG_ICT) {
        evaluate_ict_print_loss(&options->config, result, options->json);
        return;
    }
    double perplexity = exp(result->mean.loss);
    double word_perplexity =
        subject->words > 0 ? exp(result->mean.loss * result->mean.tokens / (double)subject->counted_words) : 0;
    if (options->json) {
        OWNED_BY(buffer_free) struct buffer out = {0};
        struct json_writer w = {.out = &out};
        json_begin_object(&w);
        json_put_double(&w, "loss", result->mean.loss);
        json_put_double(&w, "perplexity", perplexity);
        json_put_int(&w, "tokens", (int64_t)result->mean.tokens);
        json_put_int(&w, "samples", result->samples);
        if (subject->words > 0) {
            json_put_int(&w, "words", subject->words);
            json_put_double(&w, "word_perplexity", word_perplexity);
        }
        for (int i = 0; i < result->mean.depths; i++) {
            char name[32];
            snprintf(name, sizeof name, "mtp_%d_loss", i + 1);
            json_put_double(&w, name, result->mean.depth_losses[i]);
        }
        json_end_object(&w);
        puts(buffer_string(&out));
        return;
    }
    printf("loss %.6f | perplexity %.4f | tokens %.0f | samples %lld\n", result->mean.loss, perplexity,
           result->mean.tokens, (long long)result->samples);
    if (subject->words > 0)
        printf("words %lld | word perplexity %.4f\n", (long long)subject->words, word_perplexity);
    for (int i = 0; i < result->mean.depths; i++)
        printf("%smtp_%d loss %.6f%s", i > 0 ? " | " : "", i + 1, result->mean.depth_losses[i],
               i == result->mean.depths - 1 ? "\n" : "");
}

static int run_perplexity(struct evaluate_options *options, const struct session *session, struct step *step,
                          const struct tokenizer *tokenizer) {
    struct subject subject = {0};
    struct evaluation result;
    int status = options->text ? open_text(&subject, options, tokenizer)
                               : open_dataset(&subject, &options->config, session, tokenizer);
    // Words are counted over the whole text.
    if (subject.words > 0 && options->max_samples > 0 && options->max_samples < subject.source.count) {
        subject.words = 0;
        log_info("note: with --max-samples below the %" PRId64 " samples of the text there is no word perplexity",
                 subject.source.count);
    }
    if (status == 0)
        status = evaluate_run(&(struct evaluate){.step = step,
                                                 .source = subject.source,
                                                 .micro_batch_size = options->config.run.micro_batch_size,
                                                 .max_samples = options->max_samples},
                              &result);
    if (status == 0 && session->place.rank == 0)
        print_result(options, &subject, &result);
    datasets_close(&subject.datasets);
    token_list_free(&subject.ids);
    return status;
}

static int run_cloze(struct evaluate_options *options, const struct session *session, struct step *step,
                     const struct tokenizer *tokenizer) {
    if (!tokenizer)
        return error_set_code(EXIT_CODE_USAGE, "--cloze needs the tokenizer: give --vocab-file and --merge-file");
    struct cloze_result result;
    TRY(cloze_run(&(struct cloze){.step = step,
                                  .tokenizer = tokenizer,
                                  .path = options->cloze,
                                  .key = options->config.data.json_keys,
                                  .is_strict = options->strict_lambada,
                                  .max_samples = options->max_samples},
                  &result));
    if (session->place.rank == 0)
        printf(options->json ? "{\"texts\": %lld, \"right\": %lld, \"accuracy\": %.17g}\n"
                             : "texts %lld | right %lld | accuracy %.6f\n",
               (long long)result.texts, (long long)result.right, result.accuracy);
    return 0;
}

static int write_documents(const struct evaluate_options *options, const struct tasks *tasks) {
    OWNED_BY(buffer_free) struct buffer lines = {0};
    tasks_print_documents(tasks, &lines);
    return file_write_all(options->task_documents, buffer_string(&lines), lines.length);
}

static int run_tasks(struct evaluate_options *options, const struct session *session, struct step *step,
                     const struct tokenizer *tokenizer) {
    struct tasks *tasks = NULL;
    OWNED_BY(buffer_free) struct buffer out = {0};
    if (!tokenizer)
        return error_set_code(EXIT_CODE_USAGE, "--tasks needs the tokenizer: give --vocab-file and --merge-file");
    comm_patience_begin(session->mesh.all, "tokenizing the tasks");
    TRY(tasks_open(&tasks, &(struct tasks_options){.names = options->tasks,
                                                   .folder = options->task_data,
                                                   .file = options->task_file,
                                                   .tokenizer = tokenizer,
                                                   .window = step_window(step),
                                                   .limit = options->tasks_limit,
                                                   .shots = options->num_shots}));
    comm_patience_end(session->mesh.all);
    int status =
        tasks_run(tasks, &(struct tasks_run){.step = step, .micro_batch_size = options->config.run.micro_batch_size});
    if (status == 0 && session->place.rank == 0) {
        tasks_print(tasks, options->json, &out);
        fputs(buffer_string(&out), stdout);
        if (options->task_documents)
            status = write_documents(options, tasks);
    }
    tasks_close(tasks);
    return status;
}

static int run_retrieval(struct evaluate_options *options, const struct session *session, struct step *step,
                         const struct tokenizer *tokenizer) {
    struct subject subject = {0};
    struct retrieval_result result;
    struct retrieval retrieval = {
        .step = step, .micro_batch_size = options->config.run.micro_batch_size, .max_queries = options->max_samples};
    evaluate_ict_tops(&retrieval, &options->config);
    int status = open_dataset(&subject, &options->config, session, tokenizer);
    retrieval.source = subject.source;
    if (status == 0)
        status = retrieval_run(&retrieval, &result);
    if (status == 0 && session->place.rank == 0)
        evaluate_ict_print_retrieval(&retrieval, &result, options->json);
    datasets_close(&subject.datasets);
    return status;
}

static void choose_batch(struct evaluate_options *options, const struct session *session) {
    struct config *config = &options->config;
    if (options->cloze || flag_source(&config->given, "--micro-batch-size") != FLAG_FROM_DEFAULT)
        return;
    config->run.micro_batch_size =
        automatic_evaluation_batch(config, session->device, &session->mesh, options->max_samples);
    config->run.global_batch_size = config->run.micro_batch_size * config->machine.data_parallel_size;
}

static int open_step(struct evaluate_options *options, const struct session *session, struct step **step) {
    struct phase *phase = phase_begin("preparing the model and its memory");
    choose_batch(options, session);
    const struct setup setup = {&options->config, session->device, &session->mesh,
                                options->cloze ? STEP_GENERATE : STEP_EVALUATE};
    struct step_options step_options = setup_options(&setup);
    step_options.keeps_scores = options->tasks != NULL;
    int status = setup_open(step, &setup, &step_options);
    phase_end(phase);
    return status;
}

static int run_model(struct evaluate_options *options, struct session *session, struct saved_model *saved) {
    const struct tokenizer *tokenizer = saved->tokenizer;
    struct step *step = NULL;
    TRY(session_open(session, &options->config));
    comm_patience_begin(session->mesh.all, "loading the checkpoint");
    TRY(found_checkpoint_verify(&saved->found, &session->mesh));
    int status = open_step(options, session, &step);
    if (status == 0)
        status = state_load_found(&(struct run_state){.step = step, .config = &options->config}, &saved->found, false);
    if (status == 0)
        comm_patience_end(session->mesh.all);
    if (status == 0)
        status = (options->tasks       ? run_tasks
                  : options->cloze     ? run_cloze
                  : options->retrieval ? run_retrieval
                                       : run_perplexity)(options, session, step, tokenizer);
    // If one of several ranks fails it ends all; its device may be waiting for a message that never comes.
    if (status == 0 || session->place.size == 1)
        step_close(step);
    return status;
}

// A decoder was trained on the next token of plain text; the other models' samples are masked by their datasets.
static int check_form(const struct evaluate_options *options) {
    bool is_decoder = options->config.model.form == CONFIG_GPT;
    if (options->retrieval && options->config.model.form != CONFIG_ICT)
        return error_set_code(
            EXIT_CODE_USAGE,
            "--retrieval searches the embeddings of --model ict, but this is a --model %s; leave it out",
            CONFIG_NAME(model.form, options->config.model.form));
    if (is_decoder || (!options->text && !options->cloze && !options->tasks))
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "%s asks for the next token, which --model %s does not predict; evaluate it on a dataset "
                          "with --data-path PREFIX",
                          options->text    ? "--text"
                          : options->cloze ? "--cloze"
                                           : "--tasks",
                          CONFIG_NAME(model.form, options->config.model.form));
}

static int list_tasks(const struct evaluate_options *options, const struct session *session) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    TRY(tasks_list(options->task_file, &out));
    if (session->place.rank == 0)
        fputs(buffer_string(&out), stdout);
    return 0;
}

static int run_evaluation(void *context, struct session *session) {
    struct evaluate_options *options = context;
    OWNED_BY(saved_model_free) struct saved_model saved = {.found.hold = -1};
    if (options->tasks && strcmp(options->tasks, "list") == 0)
        return list_tasks(options, session);
    if (options->tasks && !options->task_data)
        return error_set_code(EXIT_CODE_USAGE,
                              "--tasks needs the folder of its data: give --task-data FOLDER, in which "
                              "TASK/SPLIT.jsonl are the public files");
    TRY(saved_model_find(&saved, &options->config, session, CONFIG_EVALUATE));
    TRY(check_form(options));
    return run_model(options, session, &saved);
}

static const char *remedy_for(const char *argument) {
    return file_is_folder(argument) ? "the folder of a checkpoint is the value of --load" : NULL;
}

static const struct flag_synonym synonyms[] = {
    {"--task", "--tasks", "names separated by commas"},
    {"--num-fewshot --num-few-shot --n-shot", "--num-shots", "examples in a prompt"},
    {"--limit", "--tasks-limit", "documents of each task"},
    {"--log-samples", "--task-documents", "a file with every document's log-likelihoods"},
    {"--model-path --checkpoint --model-name-or-path --pretrained", "--load", "the folder of a checkpoint"},
    {"--dataset --data --input --file", "--data-path or --text", "a dataset or a text"},
    {0},
};

static struct flag_table model_flags(size_t base) {
    return config_flag_table_for(base, CONFIG_EVALUATE);
}

const struct command cmd_evaluate = {
    .flags =
        {.name = "evaluate",
         .argument_remedy = remedy_for,
         .argument_flag = "--text",
         .summary =
             "Computes loss and perplexity of a checkpoint on a dataset or a text, scores on tasks, cloze accuracy, or "
             "retrieval. The model's and tokenizer's flags come from the checkpoint.",
         .epilogue = "Examples:\n  bevatron evaluate --load run --text book.txt\n"
                     "  bevatron evaluate --load run --text wiki.test.tokens --wikitext --overlapping-eval 32\n"
                     "  bevatron evaluate --load run --cloze lambada_test.jsonl --strict-lambada\n"
                     "  bevatron evaluate --load run --tasks hellaswag,arc_easy --task-data eval\n"
                     "  bevatron evaluate --load ict --data-path wiki_text_sentence --retrieval\n"},
    .tables = {{FLAG_TABLE(own_flags), .synonyms = synonyms}},
    .shared = model_flags,
    .shared_at = OFFSET(config),
    .options_bytes = sizeof(struct evaluate_options),
    .run_ranks = run_evaluation,
};
