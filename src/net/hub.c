// Parses names of Hugging Face. See hub.h.
#include "net/hub.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/words.h"
#include <stdlib.h>
#include <string.h>

static const char *after(const char *text, const char *begin) {
    size_t length = strlen(begin);
    return strncmp(text, begin, length) == 0 ? text + length : NULL;
}

// Length of the organization, model or dataset name at the start of a text.
static size_t word(const char *text) {
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return *text == '.' || *text == '-' ? 0 : strspn(text, bytes);
}

// Models from before names had organizations.
static bool is_known(const char *name) {
    static const char *const begins[] = {"gpt2-", "bert-", "roberta-", "xlm-roberta-", "t5-"};
    bool is_it = strcmp(name, "gpt2") == 0 || strcmp(name, "distilgpt2") == 0 || strcmp(name, "openai-gpt") == 0;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        is_it = is_it || (after(name, begins[i]) && name[word(name)] == '\0');
    return is_it;
}

// `name` is the first `length` bytes; `file` is a file in it, "" for all that the kind needs.
static char *command_of(const char *name, size_t length, const char *file, enum hub_kind kind) {
    static const char of_tokenizer[] = "tokenizer.json tokenizer_config.json";
    file = *file || kind != HUB_TOKENIZER ? file : of_tokenizer;
    return memory_printf("hf download %.*s%s%s%s --local-dir %.*s", (int)length, name, *file ? " " : "", file,
                         kind == HUB_DATASET ? " --repo-type dataset" : "", (int)length, name);
}

// Parses ORG/NAME or the name of a known model, and the rest after it. A file after /resolve/ is read from its address.
// Pages of old models and datasets have a name alone, and then words of the site.
static char *split(const char *text, enum hub_kind kind, bool is_page) {
    static const struct word_list within = WORD_LIST(' ', "blob commits discussions raw tree viewer"),
                                  others = WORD_LIST(' ', "blog collections docs learn models papers spaces tasks");
    size_t org = word(text), name = text[org] == '/' ? word(text + org + 1) : 0, both = org + 1 + name;
    bool is_alone = name == 0 || word_list_has(&within, text + org + 1, name);
    if (kind != HUB_DATASET && is_known(text))
        return command_of(text, strlen(text), "", kind);
    if (is_page && (word_list_has(&others, text, org) || after(text + org, "/resolve/")))
        return NULL;
    if (is_page && org > 0 && is_alone && (!text[org] || strchr("/?#", text[org])))
        return command_of(text, org, "", kind);
    if (org == 0 || name == 0 || (text[both] && !strchr("/@?#", text[both])))
        return NULL;
    if (is_page && after(text + both, "/resolve/"))
        return NULL;
    return command_of(text, both, text[both] == '/' && !is_page ? text + both + 1 : "", kind);
}

// It is more likely a path if its first folder exists, or if it ends like a file name.
static bool is_path(const char *name) {
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    const char *dot = strrchr(name, '.'), *slash = strchr(name, '/');
    if (!slash)
        return false;
    OWNED char *folder = memory_printf("%.*s", (int)(slash - name), name);
    bool is_file = dot && (dot[1] < '0' || dot[1] > '9') && dot[1 + strspn(dot + 1, lower)] == '\0';
    bool is_here = file_exists(folder);
    return is_file || is_here || strchr(slash + 1, '/');
}

char *hub_command(const char *name, enum hub_kind kind) {
    const char *of_hub = after(name, "hf://"), *page = after(name, "https://huggingface.co/");
    page = page ? page : after(name, "https://hf.co/");
    const char *rest = of_hub ? of_hub : page;
    if (rest) {
        const char *of_datasets = after(rest, "datasets/");
        return of_datasets ? split(of_datasets, HUB_DATASET, page != NULL)
                           : split(rest, kind == HUB_TOKENIZER ? kind : HUB_MODEL, page != NULL);
    }
    return file_exists(name) || is_path(name) ? NULL : split(name, kind, false);
}

int hub_suggest(const char *name, enum hub_kind kind) {
    OWNED char *command = hub_command(name, kind), *message = memory_string(error_message());
    if (command)
        error_set_code(error_exit_code(), "%s; if it is a %s of Hugging Face, download it: `%s`", message,
                       kind == HUB_DATASET ? "dataset" : "model", command);
    return -1;
}
