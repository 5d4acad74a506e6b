// Reads a zip archive of uncompressed entries. Names, places and sizes come from the directory at the end; the header
// in front of each entry must agree with it, so that no two readers can see different archives. Layout: PKWARE's
// APPNOTE 6.3, sections 4.3.7 (local header), 4.3.12 (directory), 4.3.14 to 4.3.16 (its end).
#include "formats/torch_file.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/extract/codec.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCAL_BYTES = 30,
    ENTRY_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    MAX_COMMENT_BYTES = 65535,
    MAX_NAME_BYTES = 1024,
    MAX_ENTRIES = 4 << 20,
    FLAG_ENCRYPTED = 1,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    MOST_EXPANSION = 1032,  // of deflate: 258 bytes for two bits
    ZIP64_EXTRA = 1,
};
static const uint32_t LOCAL_SIGNATURE = 0x04034b50, ENTRY_SIGNATURE = 0x02014b50, END_SIGNATURE = 0x06054b50,
                      END64_SIGNATURE = 0x06064b50, LOCATOR_SIGNATURE = 0x07064b50;

static uint16_t get16(const unsigned char *p) {
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static uint32_t get32(const unsigned char *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static uint64_t get64(const unsigned char *p) {
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

struct directory {
    uint64_t offset, bytes, count;
};

struct archive {
    const unsigned char *bytes;
    size_t size;
    bool may_deflate;
};

// The end record is the last one that is followed by exactly its comment.
static int find_end(const struct archive *archive, size_t *at) {
    if (archive->size < END_BYTES)
        return error_set("it has %zu bytes, too few for a zip archive", archive->size);
    size_t last = archive->size - END_BYTES, lowest = last > MAX_COMMENT_BYTES ? last - MAX_COMMENT_BYTES : 0;
    for (size_t i = last + 1; i-- > lowest;) {
        const unsigned char *p = archive->bytes + i;
        if (get32(p) == END_SIGNATURE && i + END_BYTES + get16(p + 20) == archive->size) {
            *at = i;
            return 0;
        }
    }
    return error_set("it has no zip directory at its end; the file is truncated: copy or download it again");
}

static int read_end64(const struct archive *archive, size_t end, struct directory *directory) {
    const unsigned char *locator = archive->bytes + end - LOCATOR_BYTES;
    uint64_t at = get64(locator + 8);
    if (end < LOCATOR_BYTES + END64_BYTES || at > end - LOCATOR_BYTES - END64_BYTES ||
        get32(archive->bytes + at) != END64_SIGNATURE)
        return error_set("its zip64 directory is not at its stated place");
    const unsigned char *p = archive->bytes + at;
    directory->count = get64(p + 32);
    directory->bytes = get64(p + 40);
    directory->offset = get64(p + 48);
    return 0;
}

static int find_directory(const struct archive *archive, struct directory *directory) {
    size_t end = 0;
    TRY(find_end(archive, &end));
    const unsigned char *p = archive->bytes + end;
    *directory = (struct directory){.count = get16(p + 10), .bytes = get32(p + 12), .offset = get32(p + 16)};
    bool is_split = get16(p + 4) != 0 && get16(p + 4) != UINT16_MAX;
    if (end >= LOCATOR_BYTES && get32(p - LOCATOR_BYTES) == LOCATOR_SIGNATURE)
        TRY(read_end64(archive, end, directory));
    if (is_split)
        return error_set("it is one part of a multi-part archive; join the parts first");
    if (directory->offset > end || directory->bytes > end - directory->offset)
        return error_set("its directory claims bytes %" PRIu64 " to %" PRIu64 ", but its end record is at %zu",
                         directory->offset, directory->offset + directory->bytes, end);
    if (directory->count > MAX_ENTRIES || directory->count > directory->bytes / ENTRY_BYTES)
        return error_set("its directory of %" PRIu64 " bytes claims %" PRIu64 " entries", directory->bytes,
                         directory->count);
    return 0;
}

// One record of the directory.
struct zip_record {
    const unsigned char *at;
    uint64_t compressed, bytes, offset;
    size_t name_bytes, extra_bytes, comment_bytes;
};

// Values whose 32 bits are all ones are in the zip64 field, in this order.
static int read_extra(struct zip_record *record) {
    const unsigned char *p = record->at + ENTRY_BYTES + record->name_bytes;
    size_t left = record->extra_bytes;
    uint64_t *wide[3] = {&record->bytes, &record->compressed, &record->offset};
    while (left >= 4) {
        size_t length = get16(p + 2);
        if (length > left - 4)
            return error_set("has a broken extra field");
        const unsigned char *value = p + 4;
        for (int i = 0; get16(p) == ZIP64_EXTRA && i < 3; i++) {
            if (*wide[i] != UINT32_MAX)
                continue;
            if ((size_t)(p + 4 + length - value) < 8)
                return error_set("lacks a 64-bit size that its entry promises");
            *wide[i] = get64(value);
            value += 8;
        }
        p += 4 + length;
        left -= 4 + length;
    }
    return 0;
}

static int check_method(const struct archive *archive, const struct zip_record *record) {
    unsigned flags = get16(record->at + 8), method = get16(record->at + 10);
    if (flags & FLAG_ENCRYPTED)
        return error_set("is encrypted");
    if (archive->may_deflate && method == METHOD_DEFLATED) {
        if (record->bytes / MOST_EXPANSION > record->compressed)
            return error_set("claims to unpack to %" PRIu64 " bytes from %" PRIu64, record->bytes, record->compressed);
        return 0;
    }
    if (archive->may_deflate && method != METHOD_STORED)
        return error_set("is compressed by method %u, but only deflate is supported; unpack the archive", method);
    if (method != 0 || record->compressed != record->bytes)
        return error_set("is compressed (method %u, %" PRIu64 " bytes for %" PRIu64
                         "); torch.save does not compress entries, so it did not write this file",
                         method, record->compressed, record->bytes);
    return 0;
}

// Where the entry's bytes begin, from the header in front of them.
static int find_data(const struct archive *archive, const struct zip_record *record, struct torch_zip_entry *entry) {
    if (record->offset > archive->size || archive->size - record->offset < LOCAL_BYTES)
        return error_set("claims to start at byte %" PRIu64 " of a file of %zu", record->offset, archive->size);
    const unsigned char *local = archive->bytes + record->offset;
    size_t left = archive->size - (size_t)record->offset - LOCAL_BYTES;
    size_t name_bytes = get16(local + 26), skipped = name_bytes + get16(local + 28);
    if (get32(local) != LOCAL_SIGNATURE || name_bytes != record->name_bytes || skipped > left ||
        memcmp(local + LOCAL_BYTES, record->at + ENTRY_BYTES, name_bytes) != 0)
        return error_set("has another name in its own header at byte %" PRIu64, record->offset);
    if (record->compressed > left - skipped)
        return error_set("claims %" PRIu64 " bytes, but %zu follow", record->compressed, left - skipped);
    entry->data = local + LOCAL_BYTES + skipped;
    entry->bytes = (size_t)record->bytes;
    entry->stored_bytes = (size_t)record->compressed;
    entry->is_deflated = get16(record->at + 10) == METHOD_DEFLATED;
    return 0;
}

static int read_entry(const struct archive *archive, const unsigned char *p, size_t left, struct torch_zip *zip,
                      size_t *used) {
    if (left < ENTRY_BYTES || get32(p) != ENTRY_SIGNATURE)
        return error_set("entry number %zu of its directory is not valid", zip->count);
    struct zip_record record = {.at = p,
                                .compressed = get32(p + 20),
                                .bytes = get32(p + 24),
                                .name_bytes = get16(p + 28),
                                .extra_bytes = get16(p + 30),
                                .comment_bytes = get16(p + 32),
                                .offset = get32(p + 42)};
    *used = ENTRY_BYTES + record.name_bytes + record.extra_bytes + record.comment_bytes;
    if (*used > left || record.name_bytes == 0 || record.name_bytes > MAX_NAME_BYTES ||
        memchr(p + ENTRY_BYTES, 0, record.name_bytes))
        return error_set("entry number %zu of its directory has no valid name", zip->count);
    struct torch_zip_entry *entry = &zip->entries[zip->count++];
    *entry = (struct torch_zip_entry){.crc = get32(p + 16)};
    entry->name = memory_printf("%.*s", (int)record.name_bytes, (const char *)p + ENTRY_BYTES);
    int result = read_extra(&record);
    if (result == 0)
        result = check_method(archive, &record);
    if (result == 0)
        result = find_data(archive, &record, entry);
    if (result < 0) {
        OWNED char *why = memory_string(error_message());
        error_set("the entry \"%.200s\" %s", entry->name, why);
    }
    return result;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct torch_zip_entry *)a)->name, ((const struct torch_zip_entry *)b)->name);
}

static int compare_places(const void *a, const void *b) {
    const struct torch_zip_entry *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->stored_bytes > y->stored_bytes) - (x->stored_bytes < y->stored_bytes);
}

static int check_all(struct torch_zip *zip) {
    if (zip->count == 0)
        return error_set("it is an archive without entries");
    qsort(zip->entries, zip->count, sizeof zip->entries[0], compare_places);
    for (size_t i = 1; i < zip->count; i++) {
        const struct torch_zip_entry *before = &zip->entries[i - 1], *entry = &zip->entries[i];
        if (before->data + before->stored_bytes > entry->data && entry->stored_bytes > 0)
            return error_set("the entries \"%.200s\" and \"%.200s\" overlap", before->name, entry->name);
    }
    qsort(zip->entries, zip->count, sizeof zip->entries[0], compare_names);
    for (size_t i = 1; i < zip->count; i++)
        if (strcmp(zip->entries[i - 1].name, zip->entries[i].name) == 0)
            return error_set("two entries are called \"%.200s\"", zip->entries[i].name);
    return 0;
}

static int parse(struct torch_zip *zip, const struct archive *archive) {
    struct directory directory;
    TRY(find_directory(archive, &directory));
    zip->entries = memory_alloc(((size_t)directory.count + 1) * sizeof zip->entries[0]);
    const unsigned char *p = archive->bytes + directory.offset;
    size_t left = (size_t)directory.bytes;
    for (uint64_t i = 0; i < directory.count; i++) {
        size_t used = 0;
        TRY(read_entry(archive, p, left, zip, &used));
        p += used;
        left -= used;
    }
    return check_all(zip);
}

static int parse_archive(struct torch_zip *zip, const struct archive *archive) {
    *zip = (struct torch_zip){0};
    int result = parse(zip, archive);
    if (result < 0)
        torch_zip_free(zip);
    return result;
}

int torch_zip_parse(struct torch_zip *zip, const unsigned char *bytes, size_t size) {
    return parse_archive(zip, &(struct archive){.bytes = bytes, .size = size});
}

int torch_zip_parse_packed(struct torch_zip *zip, const unsigned char *bytes, size_t size) {
    return parse_archive(zip, &(struct archive){.bytes = bytes, .size = size, .may_deflate = true});
}

void torch_zip_free(struct torch_zip *zip) {
    for (size_t i = 0; i < zip->count; i++)
        free(zip->entries[i].name);
    free(zip->entries);
    *zip = (struct torch_zip){0};
}

const struct torch_zip_entry *torch_zip_find(const struct torch_zip *zip, const char *name) {
    struct torch_zip_entry wanted = {.name = (char *)(uintptr_t)name};
    if (zip->count == 0)
        return NULL;
    return bsearch(&wanted, zip->entries, zip->count, sizeof zip->entries[0], compare_names);
}

static int compare_sum(const struct torch_zip_entry *entry, const unsigned char *bytes) {
    uint32_t crc = crc32_ieee(bytes, entry->bytes);
    if (crc != entry->crc)
        return error_set(
            "the entry \"%.200s\" has the checksum %08x and the directory says %08x: its bytes have changed; copy or "
            "download the file again",
            entry->name, crc, entry->crc);
    return 0;
}

int torch_zip_check(const struct torch_zip_entry *entry) {
    CHECK(!entry->is_deflated);
    return compare_sum(entry, entry->data);
}

int torch_zip_unpack(const struct torch_zip_entry *entry, unsigned char *to) {
    if (!entry->is_deflated)
        memcpy(to, entry->data, entry->bytes);
    else if (inflate_bytes(entry->data, entry->stored_bytes, to, entry->bytes) < 0)
        return error_context("the entry \"%.200s\"", entry->name);
    return compare_sum(entry, to);
}
