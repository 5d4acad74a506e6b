// Magic numbers and the zero bytes of UTF-16; for text, its shape.
#include "data/extract/inputs.h"
#include "base/error.h"
#include "data/table/table.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/utf8.h"
#include "net/hub.h"
#include <ctype.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

// ---- shapes of text ----

// Text that is not meant to be learned as it is, by its first bytes: markup, tables, and bytes that are hardly text at
// all. Prose must never be taken for one of them: a wrong guess would refuse it.

// The first byte that is neither white space nor a byte order mark.
static size_t skip_blanks(const char *text, size_t length, size_t at) {
    if (at == 0 && length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        at = 3;
    while (at < length && memchr(" \t\r\n", text[at], 4))
        at++;
    return at;
}

static bool has_zeros(const char *text, size_t length) {
    return length > 0 && memchr(text, 0, length);
}

static bool is_html(const char *text, size_t length) {
    static const char *const tags[] = {"<!doctype html", "<html", "<head>", "<body"};
    size_t at = skip_blanks(text, length, 0);
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (length - at > strlen(tags[i]) && strncasecmp(text + at, tags[i], strlen(tags[i])) == 0)
            return true;
    return false;
}

bool content_is_object(const char *text, size_t length) {
    size_t at = skip_blanks(text, length, 0);
    if (at == length || text[at] != '{')
        return false;
    at = skip_blanks(text, length, at + 1);
    return at < length && (text[at] == '"' || text[at] == '}');
}

// The end of the record that begins at `at`, which is cut into fields as in RFC 4180: quotes hide separators and line
// ends. SIZE_MAX if its end is not within the text.
static size_t end_of_record(const char *text, size_t length, size_t at, char separator, int *fields) {
    bool is_quoted = false;
    *fields = 1;
    for (; at < length; at++) {
        is_quoted = is_quoted != (text[at] == '"');
        *fields += !is_quoted && text[at] == separator;
        if (!is_quoted && text[at] == '\n')
            return at;
    }
    return SIZE_MAX;
}

// A name of a column has letters or digits at both ends and at most 40 bytes, so no space follows a comma as in prose.
static bool is_header(const char *text, size_t length, char separator) {
    enum { MOST_BYTES = 40 };
    while (length > 0 && text[length - 1] == '\r')
        length--;
    for (size_t at = 0, end; at <= length; at = end + 1) {
        const char *next = memchr(text + at, separator, length - at);
        end = next ? (size_t)(next - text) : length;
        if (end == at || end - at > MOST_BYTES)
            return false;
        const unsigned char first = (unsigned char)text[at], last = (unsigned char)text[end - 1];
        if (!(isalnum(first) || strchr("_\"#", first)) || !(isalnum(last) || strchr("_\")?", last)))
            return false;
    }
    return true;
}

// At least three records with the same number of fields, of which the first has names of columns.
static bool is_table(const char *text, size_t length, char separator) {
    enum { LEAST_RECORDS = 3 };
    size_t begin = skip_blanks(text, length, 0), at = begin, end;
    int records = 0, columns = 0, fields;
    for (; at < length && (end = end_of_record(text, length, at, separator, &fields)) != SIZE_MAX; at = end + 1) {
        if (records++ == 0)
            columns = fields;
        if (fields != columns || columns < 2 || (records == 1 && !is_header(text + at, end - at, separator)))
            return false;
    }
    return records >= LEAST_RECORDS;
}

static bool is_csv(const char *text, size_t length) {
    return is_table(text, length, ',');
}

static bool is_tsv(const char *text, size_t length) {
    return is_table(text, length, '\t');
}

// More than a quarter of the bytes are ill-formed UTF-8 or control characters.
static bool is_garbled(const char *text, size_t length) {
    enum { LEAST_BYTES = 64 };
    size_t bad = 0;
    for (size_t at = 0; at < length; at++) {
        uint32_t character;
        bool is_valid;
        size_t bytes = utf8_decode((const unsigned char *)text + at, length - at, &character, &is_valid);
        bad += !is_valid || (character < ' ' && !isspace((int)character) && character != '\b' && character != 0x1B);
        at += bytes - 1;
    }
    return length >= LEAST_BYTES && bad > length / 4;
}

// ---- kinds of files ----

// "%s" in the advice is the file. A kind is known by its magic, or by the shape of its text.
struct content_kind {
    const char *magic;
    size_t length;
    const char *what, *advice;
    const char *endings[4];  // of names of such files, NULL at the end
    bool (*has_shape)(const char *text, size_t length);
};

static const char as_table[] = "`bevatron preprocess --input %s` and --data-path read its text, without --input-format";
static const char as_zip[] = "unpack it with `unzip %s`, or pipe its files: `unzip -p %s | bevatron … --input -`";
static const char as_binary[] = "models learn from text; check the path";
static const char as_tokens[] = "import it: `bevatron dataset import --llmc %s --output-prefix NAME`";
static const char as_pickle[] =
    "load it in Python and write its text as JSON Lines: {\"text\": …}, one object per line";
static const char as_document[] = "extract its text: `pandoc -t plain %s -o OUT.txt`";

static const struct content_kind kinds[] = {
    {"PAR1", 4, "a Parquet file", .advice = as_table, .endings = {".parquet"}},
    {"ARROW1\0", 8, "an Arrow file", .advice = as_table, .endings = {".feather"}},
    {"\xFF\xFF\xFF\xFF", 4, "an Arrow stream", .advice = as_table, .endings = {".arrow"}},
    {"FEA1", 4, "a Feather file of version 1", .advice = "write it again with pyarrow, which writes version 2"},
    {"WARC/", 5, "a WARC file", .advice = as_table, .endings = {".warc", ".wet"}},
    {"Obj\x01", 4, "an Avro file", .advice = "export its text as JSON Lines, e.g. `avro-tools tojson %s`",
     .endings = {".avro"}},
    {"PK\x03\x04", 4, "a zip archive", .advice = as_zip, .endings = {".zip"}},
    {"PK\x05\x06", 4, "an empty zip archive", .advice = "copy or download it again"},
    {"7z\xBC\xAF\x27\x1C", 6, "a 7z archive",
     .advice = "unpack it with `7z x %s`, or pipe its files: `7z x -so %s | bevatron … --input -`", .endings = {".7z"}},
    {"Rar!\x1A\x07", 6, "a rar archive", .advice = "unpack it with `unrar x %s`", .endings = {".rar"}},
    {"\x04\x22\x4D\x18", 4, "an lz4 file", .advice = "pipe it: `lz4 -dc %s | bevatron … --input -`",
     .endings = {".lz4"}},
    {"LZIP\x01", 5, "an lzip file", .advice = "pipe it: `lzip -dc %s | bevatron … --input -`", .endings = {".lz"}},
    {"\x1F\x9D", 2, "a compress (.Z) file", .advice = "pipe it: `zcat %s | bevatron … --input -`", .endings = {".Z"}},
    {"\x89HDF\r\n\x1A\n", 8, "an HDF5 file", .advice = "export its text as JSON Lines", .endings = {".h5", ".hdf5"}},
    {"\x93NUMPY", 6, "a NumPy array",
     .advice =
         "write its ids as 16-bit numbers without a header, and import them: `bevatron dataset import --nanogpt FILE "
         "--output-prefix NAME`",
     .endings = {".npy"}},
    {"SQLite format 3", 16, "an SQLite database",
     .advice = "export its text as JSON Lines: `sqlite3 %s \"SELECT json_object('text', COLUMN) FROM TABLE\"`",
     .endings = {".sqlite", ".db"}},
    {"%PDF-", 5, "a PDF file", .advice = "extract its text, e.g. `pdftotext %s`", .endings = {".pdf"}},
    {"\xFF\xFE\x00\x00", 4, "UTF-32 text", .advice = "convert it: `iconv -f utf-32 -t utf-8 %s > OUT`"},
    {"\x00\x00\xFE\xFF", 4, "UTF-32 text", .advice = "convert it: `iconv -f utf-32 -t utf-8 %s > OUT`"},
    {"\xFF\xFE", 2, "UTF-16 text", .advice = "convert it: `iconv -f utf-16 -t utf-8 %s > OUT`"},
    {"\xFE\xFF", 2, "UTF-16 text", .advice = "convert it: `iconv -f utf-16 -t utf-8 %s > OUT`"},
    {"version https://git-lfs.github.com/spec/", 40, "a Git LFS pointer, not the file itself",
     .advice = "fetch the file: `git lfs pull` in its folder"},
    {"\x88\xD8\x34\x01", 4, "a shard of llm.c", .advice = as_tokens},
    {"\xA1\xD9\x34\x01", 4, "a shard of llm.c", .advice = as_tokens},
    {"\x80\x02", 2, "a Python pickle", .advice = as_pickle, .endings = {".pkl", ".pickle"}},
    {"\x80\x03", 2, "a Python pickle", .advice = as_pickle},
    {"\x80\x04", 2, "a Python pickle", .advice = as_pickle},
    {"\x80\x05", 2, "a Python pickle", .advice = as_pickle},
    {"\x89PNG", 4, "a PNG picture", .advice = as_binary},
    {"\xFF\xD8\xFF", 3, "a JPEG picture", .advice = as_binary},
    {"GIF8", 4, "a GIF picture", .advice = as_binary},
    {"\x7F"
     "ELF",
     4, "a program", .advice = as_binary},
    {"{\\rtf", 5, "an RTF document", .advice = as_document, .endings = {".rtf"}},
    {.what = "a document", .advice = as_document, .endings = {".docx", ".odt", ".epub"}},
    {.what = "a spreadsheet", .advice = "save its table as CSV", .endings = {".xlsx", ".ods"}},
    {.what = "not text: it has NUL bytes",
     .advice = "check the path; `tr -d '\\0' <%s >OUT` drops them from a text",
     .has_shape = has_zeros},
    {.what = "an HTML page",
     .advice = "extract its text, e.g. `pandoc -f html -t plain %s -o OUT.txt`",
     .endings = {".html", ".htm"},
     .has_shape = is_html},
    {.what = "a CSV table",
     .advice = "give it a name that ends in .csv, and name its column with --json-keys",
     .has_shape = is_csv},
    {.what = "a table of tab-separated values",
     .advice = "give it a name that ends in .tsv, and name its column with --json-keys",
     .has_shape = is_tsv},
    {.what = "not text in UTF-8",
     .advice = "convert text of another encoding: `iconv -f ENCODING -t utf-8 %s > OUT`",
     .has_shape = is_garbled},
};

static const struct content_kind tar = {.what = "a tar archive",
                                        .endings = {".tar", ".tgz"},
                                        .advice = "unpack it with `tar xf %s` and name its files, or pipe them: "
                                                  "`tar xOf %s | bevatron … --input -`"};
static const struct content_kind little = {.what = "UTF-16 text (little endian, without a byte order mark)",
                                           .advice = "convert it: `iconv -f utf-16le -t utf-8 %s > OUT`"};
static const struct content_kind big = {.what = "UTF-16 text (big endian, without a byte order mark)",
                                        .advice = "convert it: `iconv -f utf-16be -t utf-8 %s > OUT`"};
static const struct content_kind zeros = {.what = "not text: it begins with zero bytes",
                                          .advice = "check the path, copy or download it again"};

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

enum { KINDS = sizeof kinds / sizeof kinds[0] };

// Ignores magic of fewer than `least` bytes.
static const struct content_kind *kind_by_magic(const unsigned char *bytes, size_t count, size_t least) {
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].magic && kinds[i].length >= least && count >= kinds[i].length &&
            memcmp(bytes, kinds[i].magic, kinds[i].length) == 0)
            return &kinds[i];
    return table_tar.begins((const char *)bytes, count) ? &tar : NULL;
}

static const struct content_kind *find_kind(const unsigned char *bytes, size_t count) {
    const struct content_kind *kind = kind_by_magic(bytes, count, 0);
    return kind ? kind : kind_by_zeros(bytes, count);
}

static const struct content_kind *kind_by_name(const char *name) {
    for (size_t i = 0; i < KINDS; i++)
        if (ending_is_among(name, kinds[i].endings))
            return &kinds[i];
    return ending_is_among(name, tar.endings) ? &tar : NULL;
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

static int refuse(const struct content_kind *kind, const char *name, const char *path) {
    struct buffer advice = {0};
    // Documents and spreadsheets are zip archives inside.
    const struct content_kind *named = kind->advice == as_zip ? kind_by_name(path) : NULL;
    kind = named ? named : kind;
    append_advice(&advice, kind->advice, strcmp(path, "-") == 0 ? "FILE" : path);
    bad_data("%s is %s; %s", name, kind->what, buffer_string(&advice));
    buffer_free(&advice);
    return -1;
}

int content_check(const char *name, const char *path, const unsigned char *bytes, size_t count) {
    const struct content_kind *kind = find_kind(bytes, count);
    return kind ? refuse(kind, name, path) : 0;
}

int content_check_text(const char *path, const char *text, size_t length) {
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].has_shape && (kinds[i].has_shape(text, length) || ending_is_among(path, kinds[i].endings)))
            return refuse(&kinds[i], strcmp(path, "-") == 0 ? "this" : path, path);
    return 0;
}

int content_explain(const char *path) {
    enum { SURE = 4 };  // bytes of magic: 16-bit tokens may begin like anything
    unsigned char bytes[CONTENT_BYTES];
    int descriptor = file_is_regular(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t count = descriptor >= 0 ? read(descriptor, bytes, sizeof bytes) : 0;
    if (descriptor >= 0)
        close(descriptor);
    const struct content_kind *kind = count > 0 ? kind_by_magic(bytes, (size_t)count, SURE) : NULL;
    kind = kind ? kind : kind_by_name(path);
    return kind ? refuse(kind, path, path) : 0;
}

struct remote_place {
    const char *prefix, *what;
    const char *advice;      // how to get a file that cannot be read from there; NULL if it can
    const char *of_dataset;  // how to get the two files of a dataset; NULL if there is no short way
};

// Pages about data: an address below one of these is read only if it ends like a file of text.
static const struct remote_place *find_page(const char *name) {
    static const struct remote_place pages[] = {
        {"https://github.com/", "a page of GitHub", "clone its repository with `git clone`, and name the files in it",
         NULL},
        {"git@", "a repository", "clone it: `git clone %s`, and name the files in it", NULL},
        {"https://www.kaggle.com/", "a page of Kaggle", "download it: `kaggle datasets download ORG/NAME --unzip`",
         NULL},
        {"https://drive.google.com/", "on Google Drive", "download it, e.g. with gdown, and name the file", NULL},
    };
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strncmp(name, pages[i].prefix, strlen(pages[i].prefix)) == 0 && !ending_is_among(name, text_format_endings))
            return &pages[i];
    return NULL;
}

static const struct remote_place *find_place(const char *name) {
    static const struct remote_place places[] = {
        {"https://", "an address", NULL,
         "`curl -LO %s.bin -LO %s.idx`; text is read from addresses that end in .jsonl, "
         ".txt, .parquet, .csv, …"},
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
    const struct remote_place *page = find_page(name), *place = page ? page : find_place(name);
    const struct content_kind *kind = place ? kind_by_name(name) : NULL;
    TRY(check_page(name));
    if (kind && !place->advice && !table_is_named(name))
        return refuse(kind, name, name);
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
    if (!place || find_page(prefix))
        return content_check_name(prefix);
    TRY(check_page(prefix));
    struct buffer advice = {0};
    append_advice(&advice, place->of_dataset ? place->of_dataset : "", prefix);
    error_set("%s is %s, not a dataset here; copy its .bin and .idx files%s%s", prefix, place->what,
              advice.length > 0 ? ": " : " to a disk of this machine", buffer_string(&advice));
    buffer_free(&advice);
    return -1;
}
