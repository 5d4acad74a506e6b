// Runs the input model and the written one on the same few tokens. See convert_check.h.
#include "cli/convert_check.h"

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/utf8.h"
#include "data/tokenizer/tokenizer.h"
#include "train/model_probe.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- with transformers ----

// Loads a folder with transformers. The script below gets a JSON object on its standard input and
// prints one. It computes in float64, so that remaining differences are ours. It runs code neither from the folder
// (trust_remote_code is off) nor from the current folder, which Python would search for modules.

// Bound for computing with the same weights; ours in fp32.
static const double LARGEST_OTHER = 1e-4;

static const char script[] =
    "import sys\n"
    "sys.path[:] = [path for path in sys.path if path]\n"
    "import json, os, warnings, logging\n"
    "os.environ['HF_HUB_OFFLINE'] = os.environ['TRANSFORMERS_OFFLINE'] = '1'\n"
    "request = json.load(sys.stdin)\n"
    "try:\n"
    "    import torch\n"
    "    import transformers\n"
    "except ImportError as error:\n"
    "    print(json.dumps({'absent': str(error)}))\n"
    "    sys.exit(0)\n"
    "said = []\n"
    "def note(message):\n"
    "    if message not in said:\n"
    "        said.append(message)\n"
    "class Listener(logging.Handler):\n"
    "    def emit(self, record):\n"
    "        note(record.getMessage())\n"
    "transformers.logging.set_verbosity_warning()\n"
    "transformers.logging.disable_progress_bar()\n"
    "transformers.logging.disable_default_handler()\n"
    "transformers.logging.add_handler(Listener())\n"
    "warnings.simplefilter('ignore', DeprecationWarning)\n"
    "warnings.showwarning = lambda message, *rest, **more: note(str(message))\n"
    "folder = request['folder']\n"
    "config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)\n"
    "kind = getattr(transformers, config.architectures[0])\n"
    "release = tuple(int(part) for part in transformers.__version__.split('.')[:2])\n"
    "dtype = {'dtype' if release >= (4, 56) else 'torch_dtype': torch.float32}\n"
    "model, info = kind.from_pretrained(folder, output_loading_info=True, trust_remote_code=False, **dtype)\n"
    "if os.path.exists(folder + '/generation_config.json') and hasattr(model, 'generation_config'):\n"
    "    transformers.GenerationConfig.from_pretrained(folder)\n"
    "ids = None\n"
    "if os.path.exists(folder + '/tokenizer_config.json'):\n"
    "    try:\n"
    "        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)\n"
    "        tokenizer.model_max_length = 1 << 30\n"
    "        ids = [tokenizer(text, add_special_tokens=False)['input_ids'] for text in request['texts']]\n"
    "        if max(tokenizer.get_vocab().values()) >= config.vocab_size:\n"
    "            note('the tokenizer has ids beyond vocab_size')\n"
    "    except Exception as error:\n"
    "        note('AutoTokenizer does not load the tokenizer: ' + (str(error) or repr(error)).splitlines()[0])\n"
    "size = sum(p.numel() for p in model.parameters())\n"
    "model = (model.double() if size < 500e6 else model).eval()\n"
    "if hasattr(model, 'set_experts_implementation'):\n"
    "    model.set_experts_implementation('eager')\n"  // the others do not compute in float64
    "inputs = {'input_ids': torch.tensor([request['tokens']])}\n"
    "if request['decoder_tokens']:\n"
    "    inputs['decoder_input_ids'] = torch.tensor([request['decoder_tokens']])\n"
    "with torch.no_grad():\n"
    "    output = model(**inputs)\n"
    "logits = output.prediction_logits if 'prediction_logits' in output else output.logits\n"
    "flat = [x if abs(x) < float('inf') else None for x in logits[0].double().flatten().tolist()]\n"
    "names = lambda key: [str(name) for name in info.get(key) or []]\n"
    "print(json.dumps({'version': transformers.__version__, 'rows': logits.shape[1], 'columns': logits.shape[2],\n"
    "                  'missing': names('missing_keys'), 'unexpected': names('unexpected_keys'),\n"
    "                  'mismatched': names('mismatched_keys'), 'said': said, 'logits': flat,\n"
    "                  'ids': ids}))\n";

// ---- texts and their ids ----

// Strings on which tokenizers differ.
static const char *const tough[] = {
    "",
    " a",
    "  a  b   c    ",
    "\ttab\n\nlines\r\n  and spaces \n ",
    "it's I'M we'll don'T '\"'s",
    "12345678 3.14 1e-9 \u00BD \u00B2",
    "int main(void) {\n\treturn a[0] == b->c && !d; // \u2192\n}\n",
    "\x01\x7F\u00A0\u3000\u200B\u00AD",
    "e\u0301 \u00E9 a\u0308\u0301 \uFB01 \u2122 \uFF21 \u2026",
    "\u4F60\u597D\u4E16\u754C \u3053\u3093 \uD55C\uAD6D\uC5B4 \u0645\u0631 \u05E9\u05C1",
    "\u039F\u0394\u039F\u03A3 \u0130stanbul Stra\u00DFe",
    "\U0001F469\u200D\U0001F467 \U0001F44D\U0001F3FD \u2581 a\u2581\u2581b",
    "<0x41> <|x|> [x] ##a </s> <s>",
    "supercalifragilisticexpialidocious ======== aaaaaaaaaa          z",
};
enum { TOUGH_COUNT = sizeof tough / sizeof tough[0], TEXT_COUNT = TOUGH_COUNT + 200 };

struct texts {
    struct tokenizer *tokenizer;  // NULL: no comparison
    struct buffer items[TEXT_COUNT];
    int count;
};

static void texts_free(struct texts *texts) {
    for (int i = 0; i < texts->count; i++)
        buffer_free(&texts->items[i]);
    tokenizer_free(texts->tokenizer);
}

// The tokenizer of the folder as read by this program, and texts: difficult ones, and pairs of its own tokens.
static void texts_open(struct texts *texts, const struct config *config) {
    *texts = (struct texts){0};
    struct tokenizer_options options = tokenizer_options_of(config);
    options.hf_without_specials = true;
    if (!options.type || strcmp(options.type, "HuggingFaceTokenizer") != 0)
        return;
    if (tokenizer_open(&texts->tokenizer, &options) < 0) {
        error_clear();
        return;
    }
    for (int i = 0; i < TOUGH_COUNT; i++)
        buffer_append_string(&texts->items[texts->count++], tough[i]);
    int64_t size = tokenizer_vocab_size(texts->tokenizer);
    for (int64_t i = 0; i < TEXT_COUNT - TOUGH_COUNT; i++) {
        struct buffer *text = &texts->items[texts->count];
        int32_t ids[2] = {(int32_t)(i * size / TEXT_COUNT), (int32_t)((i * 7919 + 13) % size)};
        bool is_text = tokenizer_decode(texts->tokenizer, ids, 2, text) == 0 &&
                       utf8_check(buffer_string(text), text->length) == text->length;
        error_clear();
        if (is_text)
            texts->count++;
        else
            buffer_free(text);
    }
}

static void write_texts(struct json_writer *json, const struct texts *texts) {
    json_key(json, "texts");
    json_begin_array(json);
    for (int i = 0; i < texts->count; i++)
        json_string(json, buffer_string(&texts->items[i]), texts->items[i].length);
    json_end_array(json);
}

static int compare_numbers(const void *left, const void *right) {
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

// Unigram models may split a run of one character in another order: the same ids in any order are equal.
static bool has_ids(const struct json *theirs, const struct token_list *ours) {
    if (theirs->type != JSON_ARRAY || theirs->count != (size_t)ours->count)
        return false;
    OWNED int32_t *ids = memory_alloc((theirs->count + 1) * sizeof ids[0]);
    for (size_t i = 0; i < theirs->count; i++)
        ids[i] = theirs->items[i].type == JSON_NUMBER ? (int32_t)theirs->items[i].number : -1;
    if (ours->count > 0) {
        qsort(ids, theirs->count, sizeof ids[0], compare_numbers);
        qsort(ours->ids, (size_t)ours->count, sizeof ours->ids[0], compare_numbers);
    }
    return ours->count == 0 || memcmp(ids, ours->ids, theirs->count * sizeof ids[0]) == 0;
}

static int compare_ids(struct convert_verify *verify, const struct json *root, const struct texts *texts) {
    const struct json *list = json_member(root, "ids");
    if (!texts->tokenizer || !list || list->type != JSON_ARRAY)
        return 0;
    int count = list->count < (size_t)texts->count ? (int)list->count : texts->count;
    struct tokenizer_encoder *encoder;
    OWNED_BY(token_list_free) struct token_list ids = {0};
    TRY(tokenizer_encoder_create(&encoder, texts->tokenizer));
    int result = 0;
    for (int i = 0; i < count && result == 0; i++) {
        const struct buffer *text = &texts->items[i];
        ids.count = 0;
        result = tokenizer_encode(encoder, buffer_string(text), text->length, &ids);
        if (result == 0 && !has_ids(&list->items[i], &ids))
            result = error_set(
                "transformers %s gives other token ids than this program for \"%.60s\"; the result was removed",
                verify->version, buffer_string(text));
    }
    verify->texts = count;
    tokenizer_encoder_free(encoder);
    return result;
}

// ---- the script ----

static void write_tokens(struct json_writer *json, const char *key, const int32_t *tokens, int64_t count) {
    json_key(json, key);
    json_begin_array(json);
    for (int64_t i = 0; i < count; i++)
        json_int(json, tokens[i]);
    json_end_array(json);
}

static void write_request(struct buffer *out, const char *folder, const struct probe *ours, const struct texts *texts) {
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    json_put_string(&json, "folder", folder);
    write_tokens(&json, "tokens", ours->tokens, ours->T);
    write_tokens(&json, "decoder_tokens", ours->decoder_tokens, ours->S);
    write_texts(&json, texts);
    json_end_object(&json);
}

// The first texts of an array, if it has any.
static void describe(const struct json *root, const char *key, const char *what, struct buffer *out) {
    const struct json *list = json_member(root, key);
    for (size_t i = 0; list && list->type == JSON_ARRAY && i < list->count && i < 4; i++)
        if (list->items[i].type == JSON_STRING)
            buffer_printf(out, "%s%s %.300s", out->length > 0 ? "; " : "", what, list->items[i].string);
}

static int check_loading(const struct json *root, const char *version) {
    OWNED_BY(buffer_free) struct buffer problems = {0};
    describe(root, "missing", "missing tensor", &problems);
    describe(root, "unexpected", "left-over tensor", &problems);
    describe(root, "mismatched", "misshapen tensor", &problems);
    int result = problems.length > 0
                     ? error_set("transformers %s does not find the same model in the result: %s; it was removed",
                                 version, buffer_string(&problems))
                     : 0;
    return result;
}

static int take_logits(const struct json *root, struct probe *theirs) {
    int64_t rows = 0, columns = 0;
    TRY(json_get_int(root, "rows", &rows));
    TRY(json_get_int(root, "columns", &columns));
    const struct json *list = json_member(root, "logits");
    if (!list || list->type != JSON_ARRAY || rows < 1 || columns < 1 || (int64_t)list->count / columns != rows)
        return error_set("the script for transformers returned no logits");
    theirs->rows = rows;
    theirs->V = columns;
    theirs->logits = memory_alloc(list->count * sizeof theirs->logits[0]);
    for (size_t i = 0; i < list->count; i++)
        theirs->logits[i] = list->items[i].type == JSON_NUMBER ? (float)list->items[i].number : NAN;
    return 0;
}

static int judge_theirs(struct convert_verify *verify, const struct json *root, const struct probe *ours,
                        const struct texts *texts) {
    const char *version = NULL;
    const struct json *absent = json_member(root, "absent");
    if (absent && absent->type == JSON_STRING) {
        buffer_append_string(&verify->absent, absent->string);
        return 0;
    }
    TRY(json_get_string(root, "version", &version));
    verify->version = memory_string(version);
    describe(root, "said", "it warns:", &verify->said);
    TRY(check_loading(root, version));
    TRY(compare_ids(verify, root, texts));
    OWNED_BY(probe_free) struct probe theirs = {0};
    int result = take_logits(root, &theirs);
    if (result == 0 && (theirs.rows != ours->rows || theirs.V != ours->V))
        result = error_set("transformers %s computes logits of another shape; the result was removed", version);
    if (result == 0)
        verify->difference = probe_difference(&theirs, ours);
    if (result == 0 && !(verify->difference <= LARGEST_OTHER))
        result = error_set("transformers %s computes other logits (relative difference %.2g, expected at most %.2g); "
                           "the result was removed",
                           version, verify->difference, LARGEST_OTHER);
    verify->was_run = result == 0;
    return result;
}

// The last line of a program's output, without its end.
static const char *last_line(struct buffer *text) {
    while (text->length > 0 && text->data[text->length - 1] == '\n')
        text->data[--text->length] = '\0';
    const char *all = buffer_string(text), *line = strrchr(all, '\n');
    return line ? line + 1 : all;
}

// Runs $PYTHON, or python3, on the output folder. It is an error if transformers cannot load the model, finds tensors
// missing or left over, computes other logits than `ours`, or gives other ids for a list of texts. Its warnings, and a
// missing Python with transformers, are results.
static int convert_verify_run(struct convert_verify *verify, const struct model_source *written,
                              const struct probe *ours) {
    const char *named = getenv("PYTHON"), *python = named && *named ? named : "python3";
    const char *const argv[] = {python, "-c", script, NULL};
    OWNED_BY(buffer_free) struct buffer request = {0};
    OWNED_BY(process_result_free) struct process_result result = {0};
    OWNED_BY(texts_free) struct texts texts = {0};
    texts_open(&texts, &written->config);
    write_request(&request, written->path, ours, &texts);
    int status = process_run(argv, buffer_string(&request), &result);
    if (status < 0) {
        buffer_append_string(&verify->absent, error_message());
        error_clear();
        return 0;
    }
    OWNED struct json *root = NULL;
    if (result.exit_code != 0)
        status =
            error_set("transformers does not load the result, which was removed: %.500s", last_line(&result.errors));
    else
        status = json_parse(&root, buffer_string(&result.output), result.output.length, "the script for transformers");
    if (status == 0)
        status = judge_theirs(verify, root, ours, &texts);
    return status;
}

// ---- with our own forward pass ----

// Both have the same weights and differ at most by the order of summation, unless the target is only approximate.
static const double LARGEST_DIFFERENCE = 1e-5, LARGEST_NEAR = 0.1;

void convert_check_free(struct convert_check *check) {
    buffer_free(&check->skipped);
    free(check->verify.version);
    buffer_free(&check->verify.said);
    buffer_free(&check->verify.absent);
}

static int64_t tokens_of(const struct model_write *write) {
    const struct config *config = &write->source->config;
    int64_t rows = write->vocab_size > 0 ? write->vocab_size : config->model.padded_vocab_size;
    return config->data.vocab_size > 0 && config->data.vocab_size < rows ? config->data.vocab_size : rows;
}

// Logits that are not finite say nothing: such a model was broken before.
static int judge(struct convert_check *check, const struct probe *from, const struct probe *to, double largest) {
    check->difference = probe_difference(from, to);
    if (isnan(check->difference) && isnan(probe_difference(from, from))) {
        buffer_append_string(&check->skipped, "the source computes logits that are not finite numbers");
        return 0;
    }
    check->was_run = true;
    check->tokens = from->T + from->S;
    if (check->difference <= largest)
        return 0;
    return error_set("the result computes other logits than the source (relative difference %.2g, expected at most "
                     "%.2g); it was removed",
                     check->difference, largest);
}

int convert_check_compare(void *context, const struct model_pair *pair) {
    struct convert_check *check = context;
    const struct model_write *write = pair->write;
    check->was_compared = true;
    check->is_rounded = pair->tolerance > 0;
    if (!probe_fits(&write->source->config, &check->skipped))
        return 0;
    double expected = write->allows_near ? LARGEST_NEAR : LARGEST_DIFFERENCE;
    struct probe from, to;
    probe_prepare(&from, &write->source->config, tokens_of(write));
    to = from;
    struct probe_rounding rounding = {write->dtype, pair->written->config.model.apply_layernorm_1p};
    int result = probe_run(&from, write->source, write->has_dtype ? &rounding : NULL);
    if (result == 0)
        result = probe_run(&to, pair->written, NULL);
    if (result == 0)
        result = judge(check, &from, &to, pair->tolerance > 0 ? pair->tolerance : expected);
    if (result == 0 && check->verifies && check->was_run)
        result = convert_verify_run(&check->verify, pair->written, &to);
    probe_free(&from);
    probe_free(&to);
    return result;
}

void convert_check_describe(const struct convert_check *check, struct buffer *out) {
    if (!check->was_compared)
        return;
    buffer_printf(out, "read back: flags, shapes and all elements are those of the source%s",
                  check->is_rounded ? " up to rounding" : "");
    if (check->was_run)
        buffer_printf(out, ", and so are the logits of %" PRId64 " tokens (difference %.1g)", check->tokens,
                      check->difference);
    else
        buffer_printf(out, "; the forward pass was skipped: %s", buffer_string(&check->skipped));
    if (check->verify.was_run)
        buffer_printf(out,
                      "\ntransformers %s: no tensor is missing or left over, and the logits match (difference %.1g)",
                      check->verify.version, check->verify.difference);
    if (check->verify.was_run && check->verify.texts > 0)
        buffer_printf(out, "; the token ids of %d texts match", check->verify.texts);
    if (check->verify.was_run && check->verify.said.length > 0)
        buffer_printf(out, "; %s", buffer_string(&check->verify.said));
    if (!check->verify.was_run && check->verifies)
        buffer_printf(out, "\ntransformers: not run, %s",
                      check->verify.absent.length > 0 ? buffer_string(&check->verify.absent)
                                                      : "since the forward pass was skipped");
}
