// Compares records of tokenizers. See dataset_tokenizer.h.
#include "train/dataset_tokenizer.h"

#include "base/error.h"
#include "base/log.h"
#include "data/index/index.h"
#include "data/tokenizer/tokenizer.h"
#include <string.h>

int dataset_tokenizer_check(const struct tokenizer *tokenizer, const struct config *config, const char *const *prefixes,
                            int64_t count) {
    struct buffer record = {0}, fitting = {0};
    int status = 0;
    for (int64_t i = 0; tokenizer && status == 0 && i < count; i++) {
        buffer_clear(&record);
        index_tokenizer_read(prefixes[i], &record);
        // Many datasets with one tokenizer: its texts are hashed once.
        bool fits = strcmp(buffer_string(&record), buffer_string(&fitting)) == 0 ||
                    tokenizer_fits(tokenizer, buffer_string(&record));
        if (!fits && config->allow_changed_data)
            log_warn("the dataset %s was made with another tokenizer (--allow-changed-data)", prefixes[i]);
        else if (!fits)
            status =
                error_set_code(EXIT_CODE_BAD_DATA,
                               "the dataset %s was made with another tokenizer: its ids mean other text; give the "
                               "tokenizer that `bevatron preprocess` had, or --allow-changed-data to use it anyway",
                               prefixes[i]);
        buffer_clear(&fitting);
        buffer_append_string(&fitting, buffer_string(&record));
    }
    buffer_free(&record);
    buffer_free(&fitting);
    return status;
}
