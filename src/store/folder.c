// The folder of --save: its content, the latest checkpoint, and changes that survive a kill at any moment. The
// underlying rule: a name iter_NNNNNNN only ever stands for a whole checkpoint; work in progress and work being undone
// carry ".tmp." in their names.
#include "store/folder.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/checkpoint.h"
#include "store/manifest.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "iter_";
static const char marker_name[] = "latest_checkpointed_iteration.txt";
// Suffix of a folder that a new one displaced; file_temporary_name adds its own ".tmp." to it.
static const char aside_suffix[] = ".tmp.old";

enum { MOST_KEPT = 1000 };

// Digits of a non-negative number that fits; *end is the first other character. -1 if there are none or too many.
static int64_t parse_digits(const char *text, const char **end) {
    int64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > (INT64_MAX - 9) / 10)
            return -1;
        value = value * 10 + (*at - '0');
    }
    *end = at;
    return at > text ? value : -1;
}

// The iteration at the beginning of a name; *rest points after its digits.
static int64_t parse_name(const char *name, const char **rest) {
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return -1;
    const char *digits = name + sizeof prefix - 1;
    int64_t iteration = parse_digits(digits, rest);
    // One spelling per iteration: seven digits, more only if needed.
    if (iteration < 0 || *rest - digits < 7 || (*rest - digits > 7 && digits[0] == '0'))
        return -1;
    return iteration;
}

int64_t folder_iteration(const char *name) {
    const char *rest = "";
    int64_t iteration = parse_name(name, &rest);
    return *rest == '\0' ? iteration : -1;
}

int64_t folder_own_iteration(const char *path) {
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    OWNED char *name = memory_printf("%.*s", (int)(end - begin), path + begin);
    return folder_iteration(name);
}

char *checkpoint_path(const char *folder, int64_t iteration) {
    char name[32];
    (void)snprintf(name, sizeof name, "%s%07" PRId64, prefix, iteration);
    return file_join(folder, name);
}

static int compare_iterations(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void folder_list_sort(struct folder_list *list) {
    qsort(list->iterations, list->count, sizeof list->iterations[0], compare_iterations);
}

// Returns errno if the listing has failed or was cut short, else 0.
static int list_once(struct folder_list *list, const char *folder) {
    *list = (struct folder_list){0};
    DIR *stream = opendir(folder);
    if (!stream)
        return errno;
    size_t capacity = 0;
    const struct dirent *entry;
    while (errno = 0, (entry = readdir(stream))) {
        int64_t iteration = folder_iteration(entry->d_name);
        if (iteration < 0)
            continue;
        OWNED char *path = file_join(folder, entry->d_name);
        bool is_folder = file_is_folder(path);
        if (!is_folder)
            continue;
        MEMORY_GROW(list->iterations, list->count, capacity);
        list->iterations[list->count++] = iteration;
    }
    int error = errno;
    closedir(stream);
    if (error == 0 && list->count > 0)
        folder_list_sort(list);
    return error;
}

int folder_list_read(struct folder_list *list, const char *folder) {
    int error;
    while ((error = list_once(list, folder)) != 0) {
        folder_list_free(list);
        if (!file_try_again(error, folder))
            return error_set("cannot list the folder %s: %s; %s", folder, strerror(error), file_read_remedy(error));
    }
    return 0;
}

void folder_list_free(struct folder_list *list) {
    free(list->iterations);
    *list = (struct folder_list){0};
}

bool folder_marker_exists(const char *folder) {
    return file_is_in(folder, marker_name);
}

const char *folder_marker_name(void) {
    return marker_name;
}

int folder_marker_parse(const struct buffer *text, const char *name, int64_t *iteration) {
    const char *end = "", *begin = buffer_string(text);
    int64_t value = parse_digits(begin, &end);
    // People write this file with echo, so a line end after the number is fine.
    size_t blanks = strspn(end, " \r\n");
    if (value < 0 || (size_t)(end - begin) + blanks != text->length)
        return error_set("%s does not hold an iteration number", name);
    *iteration = value;
    return 0;
}

// We end the marker with a newline. Without one its last digits may be gone: "6" of "60".
static int check_uncut(const struct buffer *text, const char *path, const char *folder, int64_t iteration) {
    OWNED_BY(folder_list_free) struct folder_list list = {0};
    if ((text->length > 0 && text->data[text->length - 1] == '\n') || folder_list_read(&list, folder) < 0)
        return 0;
    int64_t longer = -1;
    for (size_t i = 0; i < list.count; i++) {
        int64_t head = list.iterations[i];
        while (head > iteration)
            head /= 10;
        if (list.iterations[i] > iteration && head == iteration)
            longer = list.iterations[i];
    }
    if (longer < 0)
        return 0;
    return error_set("%s was cut: it holds %" PRId64 " without a newline, and iteration %" PRId64
                     " is there; if %" PRId64 " is meant, add a newline, or give --ckpt-step",
                     path, iteration, longer, iteration);
}

int folder_marker_read(const char *folder, int64_t *iteration) {
    if (!folder_marker_exists(folder))
        return 0;
    OWNED char *path = file_join(folder, marker_name);
    OWNED_BY(buffer_free) struct buffer text = {0};
    int result = file_read_own(path, 64, &text);
    if (result == 0)
        result = folder_marker_parse(&text, path, iteration);
    if (result == 0)
        result = check_uncut(&text, path, folder, *iteration);
    return result < 0 ? -1 : 1;
}

int folder_marker_write(const char *folder, int64_t iteration) {
    char text[32];
    int length = snprintf(text, sizeof text, "%" PRId64 "\n", iteration);
    OWNED char *path = file_join(folder, marker_name);
    return file_write_here(path, text, (size_t)length);
}

// A leftover of a save: its iteration, or NO_ITERATION for the marker and for names that are not ours. Only names that
// end in .tmp.HOST.PID.RANDOM are leftovers; "iter_0000010.tmp.backup" is a user's copy.
enum { NO_ITERATION = -1 };
struct leftover {
    bool is_leftover, was_aside;
    int64_t iteration;
};

static struct leftover read_leftover(const char *name) {
    struct leftover found = {.iteration = NO_ITERATION};
    size_t stem = file_temporary_stem(name);
    const char *rest = "";
    int64_t iteration = parse_name(name, &rest);
    size_t used = iteration >= 0 ? (size_t)(rest - name) : 0;
    if (stem > 0 && used == stem) {
        found = (struct leftover){.is_leftover = true, .iteration = iteration};
    } else if (used > 0 && stem == used + sizeof aside_suffix - 1 &&
               strncmp(rest, aside_suffix, sizeof aside_suffix - 1) == 0) {
        found = (struct leftover){.is_leftover = true, .was_aside = true, .iteration = iteration};
    } else if (stem == sizeof marker_name - 1 && strncmp(name, marker_name, stem) == 0) {
        found.is_leftover = true;
    }
    return found;
}

// Returns errno if the listing has failed or was cut short, else 0.
static int restore_once(const char *folder) {
    DIR *stream = opendir(folder);
    if (!stream)
        return errno;
    const struct dirent *entry;
    while (errno = 0, (entry = readdir(stream))) {
        struct leftover leftover = read_leftover(entry->d_name);
        if (!leftover.was_aside)
            continue;
        OWNED char *from = file_join(folder, entry->d_name), *to = checkpoint_path(folder, leftover.iteration);
        // Several ranks may try at once; one succeeds. Folders without write permission are left as they are.
        if (!file_exists(to) && rename(from, to) == 0)
            log_warn("restored %s, which an interrupted save had moved aside", to);
    }
    int error = errno;
    closedir(stream);
    return error;
}

void folder_restore(const char *folder) {
    int error;
    do
        error = restore_once(folder);
    while (error != 0 && file_try_again(error, folder));
}

// ---- what is removed, and what may be ----

bool retention_may_remove(const struct retention *retention, int64_t iteration) {
    bool is_retained = retention->retain_interval > 0 && iteration % retention->retain_interval == 0;
    return iteration < retention->newest && !is_retained && iteration != retention->best;
}

bool retention_removes(struct retention *retention, int64_t iteration) {
    if (!retention_may_remove(retention, iteration))
        return false;
    // The newest is the first that counts.
    return iteration == retention->replaced[0] || iteration == retention->replaced[1] ||
           (retention->keep_last > 0 && ++retention->kept >= retention->keep_last);
}

// NAME.safetensors, or NAME-00001-of-00008.safetensors.
static bool is_share(const char *name, const char *part) {
    size_t length = strlen(part);
    if (strncmp(name, part, length) != 0)
        return false;
    const char *rest = name + length;
    int self = 0, size = 0, end = 0;
    if (sscanf(rest, "-%5d-of-%5d%n", &self, &size, &end) == 2)
        rest += end;
    return strcmp(rest, ".safetensors") == 0;
}

// Names that a save gives to files in an iteration's folder, whatever the manifest says.
static bool is_name_of_ours(const char *name) {
    static const char *const whole[] = {"state.json", "config.json", "manifest.json", "data_identity.json"};
    static const char *const roles[] = {"vocab-file_",  "merge-file_",  "tokenizer-model_",
                                        "huggingface_", "huggingface-", "rehearsal-"};
    bool is_known = is_share(name, "model") || is_share(name, "optimizer");
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        is_known = is_known || strcmp(name, whole[i]) == 0;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        is_known = is_known || strncmp(name, roles[i], strlen(roles[i])) == 0;
    return is_known;
}

static bool is_listed(const struct manifest *manifest, const char *name) {
    for (size_t i = 0; i < manifest->count; i++)
        if (strcmp(manifest->files[i].name, name) == 0)
            return true;
    return false;
}

// A file of ours, or one that a killed save was writing.
static bool is_written_by_us(const struct manifest *manifest, const char *folder, const char *name) {
    size_t stem = file_temporary_stem(name);
    OWNED char *target = stem > 0 ? memory_printf("%.*s", (int)stem, name) : memory_string(name);
    OWNED char *path = file_join(folder, name);
    return (is_name_of_ours(target) || is_listed(manifest, target)) && !file_is_folder(path);
}

bool folder_may_remove(const char *path, char **stranger) {
    *stranger = NULL;
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    if (manifest_read(&manifest, path) < 0)
        error_clear();
    DIR *stream = opendir(path);
    const struct dirent *entry;
    while (stream && !*stranger && (entry = readdir(stream)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !is_written_by_us(&manifest, path, entry->d_name))
            *stranger = memory_string(entry->d_name);
    if (stream)
        closedir(stream);
    else
        *stranger = memory_string("?");
    return !*stranger;
}

static int remove_leftover(const char *path, bool is_iteration) {
    char *stranger = NULL;
    if (is_iteration && file_is_folder(path) && !folder_may_remove(path, &stranger)) {
        log_warn("keeping %s of an interrupted save: it holds %s, which this program did not write", path, stranger);
        free(stranger);
        return 0;
    }
    log_info("removing %s of an interrupted save", path);
    return file_remove_tree(path);
}

int folder_remove_leftovers(const char *folder) {
    DIR *stream = opendir(folder);
    if (!stream)
        return error_set("cannot list the folder %s: %s; %s", folder, strerror(errno), file_read_remedy(errno));
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(stream))) {
        struct leftover leftover = read_leftover(entry->d_name);
        if (!leftover.is_leftover)
            continue;
        OWNED char *path = file_join(folder, entry->d_name);
        // This process has nothing under way here; another one on a shared file system may have.
        if (file_temporary_owner(path) != FILE_TEMPORARY_LIVE)
            result = remove_leftover(path, leftover.iteration >= 0);
    }
    closedir(stream);
    return result;
}

// A temporary name that folder_restore knows: TO.tmp.old.tmp.HOST.PID.RANDOM.
static char *aside_name(const char *to) {
    char *old = memory_printf("%s%s", to, aside_suffix), *name = file_temporary_name(old);
    free(old);
    return name;
}

// For file systems without exchange: two renames, undone if the second fails.
static int replace_in_two(const char *from, const char *to) {
    OWNED char *aside = aside_name(to);
    int result = file_rename(to, aside);
    if (result == 0) {
        result = file_rename(from, to);
        if (result < 0 && rename(aside, to) == 0)
            error_context("the earlier folder was restored");
    }
    if (result == 0 && file_remove_tree(aside) < 0)
        log_warn("%s", error_message());
    return result;
}

// Moves a folder that must not be removed to the first free name TO.kept, TO.kept2, …
static int keep_aside(const char *to, const char *stranger) {
    for (int i = 1; i < MOST_KEPT; i++) {
        char number[16] = "";
        if (i > 1)
            (void)snprintf(number, sizeof number, "%d", i);
        OWNED char *name = memory_printf("%s.kept%s", to, number);
        bool is_free = !file_exists(name);
        int result = is_free ? file_rename(to, name) : 0;
        if (is_free && result == 0)
            log_warn("%s already existed and holds %s, which this program did not write; it was renamed to %s", to,
                     stranger, name);
        if (is_free)
            return result;
    }
    return error_set("%s holds %s, which this program did not write; move it away to have it replaced", to, stranger);
}

int folder_replace(const char *from, const char *to) {
    if (!file_exists(to))
        return file_rename(from, to);
    char *stranger = NULL;
    if (!file_is_folder(to) || !folder_may_remove(to, &stranger)) {
        int kept = keep_aside(to, stranger ? stranger : "data");
        free(stranger);
        TRY(kept);
        return file_rename(from, to);
    }
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) < 0) {
        if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP)
            return replace_in_two(from, to);
        return error_set("cannot replace %s by %s: %s", from, to, strerror(errno));
    }
    OWNED char *parent = file_parent(to);
    int result = file_sync_folder(parent);
    // The new folder is in place; failing to remove the old one does not make the save fail.
    if (result == 0 && file_remove_tree(from) < 0)
        log_warn("%s", error_message());
    return result;
}

static int open_manifest(const char *path, int flags) {
    OWNED char *manifest = file_join(path, "manifest.json");
    return open(manifest, flags | O_CLOEXEC | O_NONBLOCK);
}

// Whether the manifest of this checkpoint is still the open file: not if the checkpoint has been renamed.
static bool has_manifest(const char *path, int descriptor) {
    struct stat opened, named;
    OWNED char *manifest = file_join(path, "manifest.json");
    return fstat(descriptor, &opened) == 0 && stat(manifest, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

int folder_hold(const char *path) {
    int descriptor = open_manifest(path, O_RDONLY);
    if (descriptor < 0)
        return -1;
    // A removal holds the lock until it has renamed the folder, which takes a moment.
    bool is_leaving = true;
    for (int i = 0; is_leaving && i < 1000; i++) {
        is_leaving = flock(descriptor, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        if (is_leaving)
            clock_sleep(0.01);
    }
    if (!is_leaving && has_manifest(path, descriptor))
        return descriptor;
    close(descriptor);
    return -1;
}

int folder_discard(const char *path) {
    char *stranger = NULL;
    if (!folder_may_remove(path, &stranger)) {
        error_set("%s holds %s, which this program did not write", path, stranger);
        free(stranger);
        return -1;
    }
    // Locked until it is renamed, so that no process starts reading it meanwhile.
    int lock = open_manifest(path, O_RDWR);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        close(lock);
        log_info("keeping %s: another process is reading it", path);
        return 1;
    }
    OWNED char *aside = file_temporary_name(path);
    int result = file_rename(path, aside);
    if (lock >= 0)
        close(lock);
    if (result == 0)
        result = file_remove_tree(aside);
    return result;
}
