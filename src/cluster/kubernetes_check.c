// Checks for errors that Kubernetes would report only later, before anything is written. See kubernetes_parts.h.
#include "base/error.h"
#include "base/utf8.h"
#include "cluster/kubernetes_parts.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Names become host names: letters, digits and dashes. Pods get up to 18 more characters.
static int check_name(const char *what, const char *name, size_t most) {
    size_t length = strlen(name);
    bool is_good = length > 0 && length <= most && islower((unsigned char)name[0]) && name[length - 1] != '-';
    for (size_t i = 0; i < length; i++)
        is_good = is_good && (islower((unsigned char)name[i]) || isdigit((unsigned char)name[i]) || name[i] == '-');
    if (is_good)
        return 0;
    return error_set_code(
        EXIT_CODE_USAGE,
        "\"%s\" cannot be %s in Kubernetes: use up to %zu lowercase letters, digits and dashes, starting with a letter",
        name, what, most);
}

// Quantities: a number and a unit.
static int check_quantity(const char *what, const char *text) {
    static const char *const units[] = {"", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
    if (!text)
        return 0;
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; digits > 0 && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text + digits, units[i]) == 0)
            return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not a Kubernetes quantity, e.g. 64Gi or 500m", what, text);
}

// Huge pages are whole ones of 2 MiB.
static int check_huge_pages(const char *text) {
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1},        {"k", 1e3},     {"M", 1e6},     {"G", 1e9},    {"T", 1e12},
                 {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
    TRY(check_quantity("--hugepages", text));
    if (!text)
        return 0;
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double pages = strtod(text, NULL) * units[i].bytes / 0x1p21;
        if (strcmp(text + digits, units[i].unit) == 0 && pages >= 1 && pages == floor(pages))
            return 0;
    }
    return error_set_code(EXIT_CODE_USAGE, "--hugepages %s is not a multiple of the page size, 2Mi", text);
}

// A manifest is UTF-8; the API server refuses anything else, without naming the place.
static int check_text(const char *what, const char *text) {
    size_t length = text ? strlen(text) : 0, good = utf8_check(text ? text : "", length);
    if (good == length)
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s \"%.*s\" is not valid UTF-8 at byte %zu, as a manifest must be", what,
                          (int)good, text, good);
}

static int check_variable(const char *pair) {
    size_t length = strcspn(pair, "=");
    bool is_good = length > 0 && pair[length] == '=' && !isdigit((unsigned char)pair[0]);
    for (size_t i = 0; i < length; i++)
        is_good = is_good && (isalnum((unsigned char)pair[i]) || pair[i] == '_');
    TRY(check_text("--env", pair));
    if (is_good)
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "--env \"%s\" is not NAME=value with a name of letters, digits and underscores", pair);
}

int kubernetes_check(const struct kubernetes_job *job) {
    TRY(check_name("the name of a job", job->name, 40));
    if (job->name_space)
        TRY(check_name("a namespace", job->name_space, 63));
    if (job->claim)
        TRY(check_name("a volume claim", job->claim, 63));
    TRY(check_quantity("--cpu", job->cpu));
    TRY(check_quantity("--memory", job->memory));
    TRY(check_huge_pages(job->huge_pages));
    TRY(check_quantity("--shm-size", job->shared_memory));
    if (!job->image || !*job->image)
        return error_set_code(EXIT_CODE_USAGE, "a Kubernetes job needs --image, the container image to run");
    if (job->mount && job->mount[0] != '/')
        return error_set_code(EXIT_CODE_USAGE, "--mount %s is not an absolute path", job->mount);
    for (int64_t i = 0; job->environment && i < job->environment->count; i++)
        TRY(check_variable(job->environment->items[i]));
    TRY(kubernetes_check_placement(job));
    TRY(check_text("--image", job->image));
    TRY(check_text("--mount", job->mount));
    TRY(check_text("--service-account", job->service_account));
    for (const char *const *word = job->command; *word; word++)
        TRY(check_text("the argument", *word));
    return 0;
}
