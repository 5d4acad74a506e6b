// Magic numbers, the checksum of a tar header, and the zero bytes of UTF-16.
#include "data/extract/content.h"
#include "data/bad_data.h"
#include "base/buffer.h"
#include "base/hub.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TAR_BYTES = 512, TAR_SUM = 148, TAR_SUM_BYTES = 8, TAR_MAGIC = 257 };

// "%s" in the advice is the file.
struct content_kind {
    const char *magic;
    size_t length;
    const char *what, *advice;
};

static const char as_parquet[] = "export its text as JSON Lines, e.g. duckdb -c \"COPY (SELECT text FROM '%s') TO "
                                 "'lines.jsonl' (FORMAT json)\"";
static const char as_zip[] = "unpack it with `unzip %s`, or pipe its files: `unzip -p %s | bevatron … --input -`";

static const struct content_kind kinds[] = {
    {"PAR1", 4, "a Parquet file", as_parquet},
    {"ARROW1\0", 8, "an Arrow file", "export its text as JSON Lines (pyarrow, duckdb, datasets' to_json)"},
    {"\xFF\xFF\xFF\xFF", 4, "an Arrow stream", "export its text as JSON Lines (pyarrow, datasets' to_json)"},
    {"Obj\x01", 4, "an Avro file", "export its text as JSON Lines, e.g. `avro-tools tojson %s`"},
    {"PK\x03\x04", 4, "a zip archive", as_zip},
    {"PK\x05\x06", 4, "an empty zip archive", "copy or download it again"},
    {"7z\xBC\xAF\x27\x1C", 6, "a 7z archive",
     "unpack it with `7z x %s`, or pipe its files: `7z x -so %s | bevatron … --input -`"},
    {"Rar!\x1A\x07", 6, "a rar archive", "unpack it with `unrar x %s`"},
    {"\x04\x22\x4D\x18", 4, "an lz4 file", "pipe it: `lz4 -dc %s | bevatron … --input -`"},
    {"LZIP\x01", 5, "an lzip file", "pipe it: `lzip -dc %s | bevatron … --input -`"},
    {"\x1F\x9D", 2, "a compress (.Z) file", "pipe it: `zcat %s | bevatron … --input -`"},
    {"\x89HDF\r\n\x1A\n", 8, "an HDF5 file", "export its text as JSON Lines"},
    {"\x93NUMPY", 6, "a NumPy array", "token ids become a dataset with `bevatron dataset import`"},
    {"SQLite format 3", 16, "an SQLite database",
     "export its text as JSON Lines: `sqlite3 %s \"SELECT json_object('text', COLUMN) FROM TABLE\"`"},
    {"%PDF-", 5, "a PDF file", "extract its text, e.g. `pdftotext %s`"},
    {"\xFF\xFE\x00\x00", 4, "UTF-32 text", "convert it: `iconv -f utf-32 -t utf-8 %s > OUT`"},
    {"\x00\x00\xFE\xFF", 4, "UTF-32 text", "convert it: `iconv -f utf-32 -t utf-8 %s > OUT`"},
    {"\xFF\xFE", 2, "UTF-16 text", "convert it: `iconv -f utf-16 -t utf-8 %s > OUT`"},
    {"\xFE\xFF", 2, "UTF-16 text", "convert it: `iconv -f utf-16 -t utf-8 %s > OUT`"},
};

static const struct content_kind tar = {
    .what = "a tar archive",
    .advice = "unpack it with `tar xf %s` and name its files, or pipe them: `tar xOf %s | "
              "bevatron … --input -`"};
static const struct content_kind little = {.what = "UTF-16 text (little endian, without a byte order mark)",
                                           .advice = "convert it: `iconv -f utf-16le -t utf-8 %s > OUT`"};
static const struct content_kind big = {.what = "UTF-16 text (big endian, without a byte order mark)",
                                        .advice = "convert it: `iconv -f utf-16be -t utf-8 %s > OUT`"};
static const struct content_kind zeros = {.what = "not text: it begins with zero bytes",
                                          .advice = "check the path, copy or download it again"};

// In every kind of tar, the header's checksum is the sum of its bytes, with the checksum itself counted as spaces.
static bool begins_as_tar(const unsigned char *bytes, size_t count) {
    if (count < TAR_BYTES || !bytes[0])
        return false;
    if (memcmp(bytes + TAR_MAGIC, "ustar", 5) == 0)
        return true;
    uint32_t sum = 0, stored = 0;
    int digits = 0;
    for (size_t i = 0; i < TAR_BYTES; i++) {
        bool is_sum = i >= TAR_SUM && i < TAR_SUM + TAR_SUM_BYTES;
        sum += is_sum ? ' ' : bytes[i];
        if (is_sum && bytes[i] >= '0' && bytes[i] <= '7') {
            stored = 8 * stored + (uint32_t)(bytes[i] - '0');
            digits++;
        } else if (is_sum && bytes[i] != ' ' && bytes[i] != 0) {
            return false;
        }
    }
    return digits >= 4 && sum == stored;
}

// In UTF-16, ASCII letters, digits and spaces have a zero byte, always on the same side; UTF-8 text has none.
static const struct content_kind *kind_by_zeros(const unsigned char *bytes, size_t count) {
    size_t zero[2] = {0}, leading = 0;
    count = count < CONTENT_BYTES ? count & ~(size_t)1 : CONTENT_BYTES;
    for (size_t i = 0; i < count; i++)
        zero[i % 2] += bytes[i] == 0;
    while (leading < count && bytes[leading] == 0)
        leading++;
    if (leading >= 4)
        return &zeros;
    size_t enough = count / 24 > 2 ? count / 24 : 2;
    if (zero[1] >= enough && zero[0] * 16 <= zero[1])
        return &little;
    return zero[0] >= enough && zero[1] * 16 <= zero[0] ? &big : NULL;
}

static const struct content_kind *find_kind(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (count >= kinds[i].length && memcmp(bytes, kinds[i].magic, kinds[i].length) == 0)
            return &kinds[i];
    return begins_as_tar(bytes, count) ? &tar : kind_by_zeros(bytes, count);
}

// Appends the advice with the path in place of each %s.
static void append_advice(struct buffer *out, const char *advice, const char *path) {
    const char *place;
    for (; (place = strstr(advice, "%s")); advice = place + 2) {
        buffer_append(out, advice, (size_t)(place - advice));
        buffer_append_string(out, path);
    }
    buffer_append_string(out, advice);
}

int content_check(const char *name, const char *path, const unsigned char *bytes, size_t count) {
    const struct content_kind *kind = find_kind(bytes, count);
    if (!kind)
        return 0;
    struct buffer advice = {0};
    append_advice(&advice, kind->advice, strcmp(path, "-") == 0 ? "FILE" : path);
    bad_data("%s is %s; %s", name, kind->what, buffer_string(&advice));
    buffer_free(&advice);
    return -1;
}

struct remote_place {
    const char *prefix, *what;
    const char *advice;      // how to get a file that cannot be read from there; NULL if it can
    const char *of_dataset;  // how to get the two files of a dataset; NULL if there is no short way
};

static const struct remote_place *find_place(const char *name) {
    static const struct remote_place places[] = {
        {"https://", "an address", NULL,
         "`curl -LO %s.bin -LO %s.idx`; text is read from addresses that end in .jsonl "
         "or .txt"},
        {"http://", "an address", NULL, "`curl -LO %s.bin -LO %s.idx`"},
        {"ftp://", "an address", "download it: `curl -O %s`", "`curl -O %s.bin -O %s.idx`"},
        {"s3://", "in S3", NULL, "`aws s3 cp %s.bin . && aws s3 cp %s.idx .`"},
        {"gs://", "in Google Cloud Storage", "copy it: `gcloud storage cp %s .`",
         "`gcloud storage cp %s.bin %s.idx .`"},
        {"hf://", "on Hugging Face", "download it with `hf download ORG/NAME --local-dir ORG/NAME`", NULL},
        {"az://", "in Azure Storage", "copy it with `azcopy copy`", NULL},
        {"abfs://", "in Azure Storage", "copy it with `azcopy copy`", NULL},
        {"hdfs://", "in HDFS", "copy it: `hdfs dfs -get %s`", "`hdfs dfs -get %s.bin %s.idx .`"},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (strncmp(name, places[i].prefix, strlen(places[i].prefix)) == 0)
            return &places[i];
    return NULL;
}

// A page about data: of Hugging Face, or of a file on GitHub.
static int check_page(const char *name) {
    static const char github[] = "https://github.com/", blob[] = "/blob/";
    const char *middle = strncmp(name, github, strlen(github)) == 0 ? strstr(name, blob) : NULL;
    if (middle)
        return error_set("%s is a web page about a file; give the file's own address, "
                         "https://raw.githubusercontent.com/%.*s/%s",
                         name, (int)(middle - name - (ptrdiff_t)strlen(github)), name + strlen(github),
                         middle + strlen(blob));
    char *command = strstr(name, "://") ? hub_command(name, HUB_DATASET) : NULL;
    if (command)
        error_set("%s is on Hugging Face, not a file here; download it: `%s`, and give the files in that folder", name,
                  command);
    free(command);
    return command ? -1 : 0;
}

int content_check_name(const char *name) {
    const struct remote_place *place = find_place(name);
    TRY(check_page(name));
    if (!place || !place->advice)
        return 0;
    struct buffer advice = {0};
    append_advice(&advice, place->advice, name);
    error_set("%s is %s, not a file here; %s", name, place->what, buffer_string(&advice));
    buffer_free(&advice);
    return -1;
}

int content_check_prefix(const char *prefix) {
    const struct remote_place *place = find_place(prefix);
    TRY(check_page(prefix));
    if (!place)
        return 0;
    struct buffer advice = {0};
    append_advice(&advice, place->of_dataset ? place->of_dataset : "", prefix);
    error_set("%s is %s, not a dataset here; copy its .bin and .idx files%s%s", prefix, place->what,
              advice.length > 0 ? ": " : " to a disk of this machine", buffer_string(&advice));
    buffer_free(&advice);
    return -1;
}
