// RoBERTa checkpoints of fairseq as a model source: one file of torch.save with the model and the arguments of the run
// ("args", or "cfg" since 0.10), or a folder with such a file, model.pt, as they are published. Tensors tell the sizes,
// arguments the heads and activations. Nothing is executed. The file's optimizer is not used.
//
// Releases call the stack encoder.sentence_encoder or decoder.sentence_encoder, and the first of them packed queries,
// keys and values into one matrix, in our order. Positions begin at 2, after the padding's.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include "formats/hf_names.h"
#include "formats/hf_parts.h"
#include "formats/hf_surroundings.h"
#include "formats/source_kind.h"
#include "store/extra.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POSITION_OFFSET = 2, USUAL_HEAD_SIZE = 64, MOST_LAYERS = 100000 };
static const char stack[] = "sentence_encoder.";

struct fairseq_detail {
    struct hf_source tensors;  // without "encoder." or "decoder."
    const struct torch_file *file;
    const struct torch_value *args;  // NULL if there are none that can be read
};

// The tensors, as a family of Hugging Face would have them.
#define LAYER "sentence_encoder.layers.*."
#define ATTENTION LAYER "self_attn."
static const struct hf_family family = {
    .model_type = "fairseq",
    .prefix = "",
    .embedding = "sentence_encoder.embed_tokens.weight",
    .head = "lm_head.weight",
    .ignored = (const char *const[]){"sentence_encoder.version", NULL},
    ROWS(OWN_ROWS(
        SAME("embedding.word_embeddings", "sentence_encoder.embed_tokens"),
        SAME("embedding.position_embeddings", "sentence_encoder.embed_positions"),
        SAME_BIAS("embedding.layernorm", "sentence_encoder.layernorm_embedding"),
        SAME_BIAS("embedding.layernorm", "sentence_encoder.emb_layer_norm"),
        JOINED_BIAS(ENCODER "self_attention.linear_qkv", ATTENTION "q_proj", ATTENTION "k_proj", ATTENTION "v_proj"),
        ROW(ENCODER "self_attention.linear_qkv.weight", HF_SAME, ATTENTION "in_proj_weight"),
        ROW(ENCODER "self_attention.linear_qkv.bias", HF_SAME, ATTENTION "in_proj_bias"),
        SAME_BIAS(ENCODER "self_attention.linear_proj", ATTENTION "out_proj"),
        SAME_BIAS(ENCODER "post_attention_layernorm", LAYER "self_attn_layer_norm"),
        SAME_BIAS(ENCODER "mlp.linear_fc1", LAYER "fc1"), SAME_BIAS(ENCODER "mlp.linear_fc2", LAYER "fc2"),
        SAME_BIAS(ENCODER "post_mlp_layernorm", LAYER "final_layer_norm"), SAME_BIAS("lm_head.dense", "lm_head.dense"),
        SAME_BIAS("lm_head.layer_norm", "lm_head.layer_norm"), SAME_BIAS("output_layer", "lm_head"))),
};

// ---- the file ----

static char *file_of(const char *path) {
    return file_is_folder(path) ? file_join(path, "model.pt") : memory_string(path);
}

static const struct torch_value *model_of(const struct torch_file *file) {
    const struct torch_value *model = torch_get(file->pickle.root, "model");
    return model && model->type == TORCH_DICT ? model : NULL;
}

// The name after "encoder." or "decoder."; NULL for other names.
static const char *bare_name(const struct torch_value *key) {
    static const char encoder[] = "encoder.", decoder[] = "decoder.";
    if (key->type != TORCH_STRING || strlen(key->text) != key->length)
        return NULL;
    bool has_prefix =
        strncmp(key->text, encoder, strlen(encoder)) == 0 || strncmp(key->text, decoder, strlen(decoder)) == 0;
    return has_prefix ? key->text + strlen(encoder) : NULL;
}

static bool has_stack(const struct torch_file *file) {
    const struct torch_value *model = model_of(file);
    for (size_t i = 0; model && i < model->count; i += 2) {
        const char *name = bare_name(model->items[i]);
        if (name && strncmp(name, stack, strlen(stack)) == 0)
            return true;
    }
    return false;
}

static bool has_magic(const char *path) {
    unsigned char bytes[2] = {0};
    FILE *file = file_is_regular(path) ? fopen(path, "rb") : NULL;
    bool is_read = file && fread(bytes, sizeof bytes, 1, file) == 1;
    if (file)
        (void)fclose(file);
    return is_read && (memcmp(bytes, "PK", 2) == 0 || bytes[0] == 0x80);  // an archive, or a pickle
}

static bool is_file(const char *path) {
    OWNED char *name = file_of(path);
    OWNED_BY(torch_close) struct torch_file file = {0};
    bool is_there = has_magic(name) && torch_open(&file, name) == 0 && has_stack(&file);
    error_clear();
    return is_there;
}

static void add_note(struct model_source *source, const char *note) {
    buffer_printf(&source->notes, "%s%s", source->notes.length > 0 ? "; " : "", note);
}

static int add_tensors(struct model_source *source, const char *path) {
    struct fairseq_detail *detail = source->detail;
    TRY(weights_open_torch(&detail->tensors.weights, path, &detail->file));
    const struct torch_value *model = model_of(detail->file);
    bool has_heads = false;
    for (size_t i = 0; model && i < model->count; i += 2) {
        const struct torch_value *key = model->items[i], *value = model->items[i + 1];
        const char *name = bare_name(key);
        bool is_text = key->type == TORCH_STRING && strlen(key->text) == key->length;
        has_heads = has_heads || (is_text && strncmp(key->text, "classification_heads.", 21) == 0);
        if (name && value->type == TORCH_TENSOR && !strstr(name, "_float_tensor"))  // a buffer
            weights_add_tensor(&detail->tensors.weights, name, detail->file, &value->tensor);
    }
    if (has_heads)
        add_note(source, "the classification heads are left out");
    if (torch_get(detail->file->pickle.root, "last_optimizer_state"))
        add_note(source, "the state of fairseq's optimizer is left out: a run starts over");
    return weights_sort(&detail->tensors.weights);
}

// ---- the configuration ----

static const struct torch_value *find_args(const struct torch_file *file) {
    const struct torch_value *args = torch_get(file->pickle.root, "args");
    const struct torch_value *model = torch_get(torch_get(file->pickle.root, "cfg"), "model");
    if (args && args->type == TORCH_DICT)
        return args;
    return model && model->type == TORCH_DICT ? model : NULL;
}

static const char *text_of(const struct torch_value *value) {
    return value && value->type == TORCH_STRING && strlen(value->text) == value->length ? value->text : NULL;
}

static bool is_true(const struct torch_value *value) {
    return value && value->type == TORCH_BOOL && value->boolean;
}

static int set_activation(struct config *config, const struct torch_value *args) {
    static const struct {
        const char *theirs, *ours;
    } names[] = {{"gelu", "gelu"}, {"gelu_accurate", "gelu_tanh"}, {"gelu_fast", "gelu_tanh"}, {"relu", "relu"}};
    const char *theirs = text_of(torch_get(args, "activation_fn"));
    theirs = theirs ? theirs : "gelu";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(theirs, names[i].theirs) == 0) {
            TRY(config_take(config, "--activation", names[i].ours));
            return config_take(config, "--lm-head-activation", names[i].ours);
        }
    return error_set("its argument \"activation_fn\" is %.60s, which is not supported", theirs);
}

static int set_dropouts(struct config *config, const struct torch_value *args) {
    static const struct {
        const char *theirs, *flag;
    } rates[] = {{"dropout", "--hidden-dropout"}, {"attention_dropout", "--attention-dropout"}};
    for (size_t i = 0; i < 2; i++) {
        const struct torch_value *value = torch_get(args, rates[i].theirs);
        char text[32];
        if (!value || (value->type != TORCH_FLOAT && value->type != TORCH_INT))
            continue;
        (void)snprintf(text, sizeof text, "%.17g", value->type == TORCH_FLOAT ? value->real : (double)value->integer);
        TRY(config_take(config, rates[i].flag, text));
    }
    return 0;
}

static const struct weight *matrix(const struct fairseq_detail *detail, const char *name) {
    const struct weight *weight = weights_find(&detail->tensors.weights, name);
    return weight && weight->rank == 2 ? weight : NULL;
}

static int64_t count_layers(const struct fairseq_detail *detail) {
    for (int64_t layer = 0; layer < MOST_LAYERS; layer++) {
        OWNED char *name = memory_printf("%slayers.%" PRId64 ".fc1.weight", stack, layer);
        bool is_there = matrix(detail, name) != NULL;
        if (!is_there)
            return layer;
    }
    return MOST_LAYERS;
}

static int check_supported(const struct fairseq_detail *detail) {
    if (is_true(torch_get(detail->args, "encoder_normalize_before")) ||
        weights_find(&detail->tensors.weights, "sentence_encoder.layer_norm.weight"))
        return error_set("its model was made with --encoder-normalize-before, which is not supported");
    const char *arch = text_of(torch_get(detail->args, "arch"));
    if (arch && strncmp(arch, "roberta", 7) != 0 && strncmp(arch, "xlmr", 4) != 0 && strncmp(arch, "camembert", 9) != 0)
        return error_set("its --arch is %.60s; only RoBERTa of fairseq is supported", arch);
    return 0;
}

static int set_heads(struct config *config, const struct fairseq_detail *detail, int64_t given, int64_t width) {
    const struct torch_value *value = torch_get(detail->args, "encoder_attention_heads");
    int64_t heads = value && value->type == TORCH_INT ? value->integer : given;
    if (heads <= 0) {
        heads = width / USUAL_HEAD_SIZE;
        log_info("note: the checkpoint does not say the number of attention heads; assuming %" PRId64
                 " of %d channels each (change it with --num-attention-heads)",
                 heads, USUAL_HEAD_SIZE);
    }
    return config_take_number(config, "--num-attention-heads", heads > 0 ? heads : 1);
}

static int read_config(struct model_source *source, int64_t heads) {
    static const struct {
        const char *flag, *value;
    } fixed[] = {{"--model", "bert"},        {"--norm-placement", "post"},      {"--position-offset", "2"},
                 {"--norm-epsilon", "1e-5"}, {"--bert-no-binary-head", "true"}, {"--num-token-types", "0"}};
    struct fairseq_detail *detail = source->detail;
    struct config *config = &source->config;
    const struct weight *words = matrix(detail, "sentence_encoder.embed_tokens.weight"),
                        *positions = matrix(detail, "sentence_encoder.embed_positions.weight"),
                        *inner = matrix(detail, "sentence_encoder.layers.0.fc1.weight");
    if (!words || !positions || !inner || positions->shape[0] <= POSITION_OFFSET)
        return error_set("it lacks an embedding, positions or layers");
    TRY(check_supported(detail));
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        TRY(config_take(config, fixed[i].flag, fixed[i].value));
    TRY(config_take_number(config, "--num-layers", count_layers(detail)));
    TRY(config_take_number(config, "--hidden-size", words->shape[1]));
    TRY(config_take_number(config, "--ffn-hidden-size", inner->shape[0]));
    TRY(config_take_number(config, "--padded-vocab-size", words->shape[0]));
    TRY(config_take_number(config, "--max-position-embeddings", positions->shape[0] - POSITION_OFFSET));
    TRY(set_heads(config, detail, heads, words->shape[1]));
    TRY(set_activation(config, detail->args));
    TRY(set_dropouts(config, detail->args));
    // The output matrix is stored twice if it is the embedding. hf_source_plan reports types that cannot be read.
    const struct weight *head = matrix(detail, family.head);
    bool is_readable = head && head->is_readable && words->is_readable;
    return is_readable && !hf_is_same_tensor(head, words)
               ? config_take(config, "--untie-embeddings-and-output-weights", "true")
               : 0;
}

// Adds the dictionary and its BPE's files if they are beside the checkpoint, as in published folders.
static void take_tokenizer(struct model_source *source, const char *path) {
    static const char *const names[] = {"dict.txt", "encoder.json", "vocab.bpe"};
    static const char *const roles[] = {"tokenizer-model", "vocab-file", "merge-file"};
    struct config *config = &source->config;
    char **places[] = {&config->data.tokenizer_model, &config->data.vocab_file, &config->data.merge_file}, *files[3];
    OWNED char *parent = file_parent(path);
    bool is_there[3];
    for (size_t i = 0; i < 3; i++) {
        files[i] = file_join(parent, names[i]);
        is_there[i] = file_is_regular(files[i]) && extra_is_inside(parent, files[i]);
    }
    if (is_there[0] && is_there[1] && is_there[2]) {
        for (size_t i = 0; i < 3; i++) {
            hf_surroundings_add_tokenizer(&source->files, roles[i], files[i]);
            *places[i] = memory_string(files[i]);
        }
        config->data.tokenizer_type = memory_string("FairseqTokenizer");
    } else {
        add_note(source,
                 "no tokenizer: dict.txt, encoder.json and vocab.bpe are not all beside the checkpoint; train with "
                 "--tokenizer-type FairseqTokenizer and these files");
    }
    for (size_t i = 0; i < 3; i++)
        free(files[i]);
}

static int open_source(struct model_source *source, const struct model_source_options *options) {
    struct fairseq_detail *detail = memory_alloc(sizeof *detail);
    source->detail = detail;
    detail->tensors.family = &family;
    OWNED char *path = file_of(options->path);
    TRY(add_tensors(source, path));
    detail->args = find_args(detail->file);
    if (read_config(source, options->attention_heads) < 0)
        return error_context("cannot use %s", path);
    take_tokenizer(source, path);
    TRY(source_build(source));
    return hf_source_plan(source);
}

const struct model_source_kind source_fairseq = {
    .name = "fairseq", .is_folder = is_file, .open = open_source, .read = hf_source_read, .close = hf_source_close};
