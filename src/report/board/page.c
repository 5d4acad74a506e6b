// Finds a file of the web page. See page.h.
#include "report/board/page.h"

#include "base/error.h"
#include <string.h>

const struct page_asset *page_asset(const char *name) {
    for (size_t i = 0; i < page_asset_count; i++)
        if (strcmp(page_assets[i].name, name) == 0)
            return &page_assets[i];
    die("the page has no %s", name);
}
