// layer: data
// Lists of file prints from hostile bytes: the number of digests must follow from the sizes.
#include "fuzz.h"

#include "data/file_print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct file_print_list list;
    if (file_print_list_parse(&list, (const char *)data, size, "list") == 0) {
        // The digest reads all of them.
        for (int64_t i = 0; i < list.count; i++) {
            char hex[65];
            CHECK(list.items[i].path);
            file_print_digest(&list.items[i], hex);
        }
    }
    file_print_list_free(&list);
    return 0;
}
