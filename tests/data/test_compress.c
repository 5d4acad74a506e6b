// Reading compressed files (tests/golden/make_compressed.py): several streams in one file, every truncation, flipped
// bits, formats detected by content, small reads.
#include "data/extract/codec.h"
#include "data/extract/reader.h"
#include "base/error.h"
#include "fixture.h"
#include "reading.h"

static const char *const names[] = {"lines.gz", "lines.bz2", "lines.xz", "lines.zst"};
static const char *const formats[] = {"gzip", "bzip2", "xz", "zstd"};
enum { FORMATS = 4 };

static char *golden(int i) {
    return memory_printf("tests/golden/compress/%s", names[i]);
}

// The content of the golden files, by the same rule as in the script.
static void expected_lines(struct buffer *out) {
    for (int i = 1; i <= 4000; i++)
        buffer_printf(out, "line %d: %d sacks of flour\n", i, i * i % 977);
}

static bool has_codec(const char *path) {
    struct reader *reader;
    bool opened = reader_open(&reader, path) == 0;
    if (opened)
        reader_close(reader);
    else
        EXPECT(strstr(error_message(), "this build cannot read"));
    return opened;
}

TEST(all_streams_of_a_file_are_read) {
    static const size_t steps[] = {1, 7, 4096, 1 << 20};
    struct buffer expected = {0}, out = {0};
    expected_lines(&expected);
    int tested = 0;
    for (int i = 0; i < FORMATS; i++) {
        char *path = golden(i);
        for (size_t s = 0; has_codec(path) && s < sizeof steps / sizeof steps[0]; s++) {
            EXPECT_OK(read_whole(path, 1, steps[s], &out));
            EXPECT_INT(out.length, expected.length);
            EXPECT(memcmp(out.data, expected.data, expected.length) == 0);
            tested++;
        }
        free(path);
    }
    buffer_free(&expected);
    buffer_free(&out);
    if (!tested)
        test_skip("this build reads no compressed files");
}

TEST(format_and_position_are_known) {
    for (int i = 0; i < FORMATS; i++) {
        char *path = golden(i);
        if (has_codec(path)) {
            struct reader *reader;
            char bytes[64];
            uint64_t size;
            EXPECT_OK(file_size(path, &size));
            EXPECT_OK(reader_open(&reader, path));
            EXPECT_STRING(reader_format(reader), formats[i]);
            while (reader_read(reader, bytes, sizeof bytes) > 0)
                ;
            EXPECT_INT(reader_input_bytes(reader), size);
            reader_close(reader);
        }
        free(path);
    }
}

// A file truncated at any byte is an error, or, if a stream ends just there, gives the streams before.
TEST(truncation_is_noticed) {
    scratch_open();
    struct buffer expected = {0}, out = {0};
    expected_lines(&expected);
    for (int i = 0; i < FORMATS; i++) {
        char *path = golden(i);
        if (has_codec(path)) {
            struct buffer whole = read_bytes(path);
            int clean = 0;
            for (size_t cut = 12; cut < whole.length; cut += cut < 300 || cut + 300 > whole.length ? 1 : 131) {
                write_quickly(scratch_path("cut"), &whole, cut);
                if (read_whole(scratch_path("cut"), 1, 1 << 16, &out) < 0) {
                    EXPECT(strstr(error_message(), "is truncated") || strstr(error_message(), "damaged"));
                    EXPECT(strstr(error_message(), scratch));
                    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
                } else {
                    clean++;
                }
                EXPECT(out.length <= expected.length && memcmp(out.data, expected.data, out.length) == 0);
            }
            EXPECT(clean <= 30);
            buffer_free(&whole);
        }
        free(path);
    }
    buffer_free(&expected);
    buffer_free(&out);
    scratch_close();
}

// A flipped bit is an error or has no effect (a time stamp, a reserved bit); it never changes the text unnoticed.
TEST(damage_is_noticed) {
    scratch_open();
    struct buffer expected = {0}, out = {0};
    expected_lines(&expected);
    uint64_t state = 3;
    for (int i = 0; i < FORMATS; i++) {
        char *path = golden(i);
        if (has_codec(path)) {
            struct buffer bytes = read_bytes(path);
            int errors = 0;
            for (int round = 0; round < 150; round++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                size_t at = 10 + (size_t)(state >> 33) % (bytes.length - 10);
                char mask = (char)(1 << (state >> 60 & 7));
                bytes.data[at] ^= mask;
                write_quickly(scratch_path("damaged"), &bytes, bytes.length);
                bytes.data[at] ^= mask;
                if (read_whole(scratch_path("damaged"), 1, 1 << 16, &out) < 0)
                    errors++;
                else
                    EXPECT(out.length == expected.length && memcmp(out.data, expected.data, out.length) == 0);
            }
            EXPECT(errors > 100);
            buffer_free(&bytes);
        }
        free(path);
    }
    buffer_free(&expected);
    buffer_free(&out);
    scratch_close();
}

TEST(content_decides_and_not_the_name) {
    scratch_open();
    struct buffer out = {0};
    write_bytes(scratch_path("plain.gz"), "just text\n", 10);
    EXPECT_OK(read_whole(scratch_path("plain.gz"), 1, 100, &out));
    EXPECT_INT(out.length, 10);
    char *path = golden(0);
    if (has_codec(path)) {
        struct buffer bytes = read_bytes(path);
        write_bytes(scratch_path("packed.txt"), bytes.data, bytes.length);
        EXPECT_OK(read_whole(scratch_path("packed.txt"), 1, 1000, &out));
        EXPECT(out.length > 100000);
        buffer_free(&bytes);
    }
    free(path);
    buffer_free(&out);
    scratch_close();
}

TEST(short_and_strange_files) {
    scratch_open();
    struct buffer out = {0};
    write_bytes(scratch_path("empty"), "", 0);
    EXPECT_OK(read_whole(scratch_path("empty"), 1, 100, &out));
    EXPECT_INT(out.length, 0);
    write_bytes(scratch_path("empty.xz"), "", 0);
    EXPECT_ERROR(read_whole(scratch_path("empty.xz"), 1, 100, &out), "is empty");
    write_bytes(scratch_path("B"), "BZh9 is how this text begins", 28);
    EXPECT_OK(read_whole(scratch_path("B"), 1, 100, &out));
    EXPECT_INT(out.length, 28);
    write_bytes(scratch_path("p"), "PAR1 and so on", 14);
    EXPECT_ERROR(read_whole(scratch_path("p"), 1, 100, &out), "Parquet");
    write_bytes(scratch_path("z"), "PK\x03\x04 and so on", 14);
    EXPECT_ERROR(read_whole(scratch_path("z"), 1, 100, &out), "zip archive");
    EXPECT_ERROR(read_whole(scratch_path("missing"), 1, 100, &out), "cannot open");
    EXPECT_ERROR(read_whole(scratch, 1, 100, &out), "cannot read");
    buffer_free(&out);
    scratch_close();
}

// A header in POSIX's ustar format, and in the older one, which has no magic but the sum of its bytes.
static void tar_header(unsigned char header[1024], bool is_old) {
    memset(header, 0, 1024);
    memcpy(header, "corpus/a.jsonl", 14);
    memcpy(header + 100, "0000644\0000001750\0000001750\00000000000015\00014000000000", 48);
    if (!is_old)
        memcpy(header + 257, "ustar\00000", 8);
    unsigned sum = 8 * ' ';
    for (int i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum);
    header[155] = ' ';
    memcpy(header + 512, "{\"text\": \"a\"}\n", 14);
}

static void expect_refused(const void *bytes, size_t count, const char *what) {
    struct buffer out = {0}, packed = {0};
    write_bytes(scratch_path("f"), bytes, count);
    EXPECT_ERROR(read_whole(scratch_path("f"), 1, 100, &out), what);
    if (pack_gzip(&packed, bytes, count) == 0) {
        write_bytes(scratch_path("f"), packed.data, packed.length);
        EXPECT_ERROR(read_whole(scratch_path("f"), 1, 100, &out), what);
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
    buffer_free(&packed);
    buffer_free(&out);
}

TEST(files_that_are_not_text_are_named) {
    scratch_open();
    unsigned char header[1024];
    for (int old = 0; old < 2; old++) {
        tar_header(header, old);
        expect_refused(header, sizeof header, "is a tar archive; unpack it with `tar xf ");
    }
    header[0] ^= 1;  // neither a correct sum nor a magic
    struct buffer out = {0};
    write_bytes(scratch_path("f"), header, sizeof header);
    EXPECT_OK(read_whole(scratch_path("f"), 1, 100, &out));
    static const struct {
        const char *bytes;
        size_t count;
        const char *what;
    } cases[] = {
        {"7z\xBC\xAF\x27\x1C\0\4", 8, "is a 7z archive; unpack it with `7z x "},
        {"PK\3\4\24\0", 6, "is a zip archive; unpack it with `unzip "},
        {"PAR1\x15\4", 6, "is a Parquet file"},
        {"\xFF\xFE{\0\"\0", 6, "is UTF-16 text; convert it: `iconv -f utf-16 -t utf-8 "},
        {"\xFE\xFF\0{\0\"", 6, "is UTF-16 text; convert it: `iconv -f utf-16 -t utf-8 "},
        {"{\0\"\0t\0e\0x\0t\0\"\0:\0", 16, "iconv -f utf-16le -t utf-8 "},
        {"\0<\0m\0e\0d\0i\0a", 12, "iconv -f utf-16be -t utf-8 "},
        {"\0\0\0\0\0\0\0\0\0\0\0", 11, "is not text: it begins with zero bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i].bytes, cases[i].count, cases[i].what);
    // A few zero bytes do not make a text UTF-16.
    write_bytes(scratch_path("f"), "a line with \0 in it, and another \0 as well\n", 43);
    EXPECT_OK(read_whole(scratch_path("f"), 1, 100, &out));
    buffer_free(&out);
    scratch_close();
}

static int blame(const char *path, const char *format) {
    error_set_code(EXIT_CODE_BAD_DATA, "not UTF-8");
    return reader_blame_damage(path, format);
}

// The text of a damaged file looks wrong long before its checksum fails; the user is told of the damage.
TEST(damage_is_blamed_before_text) {
    scratch_open();
    struct buffer text = {0}, packed = {0};
    for (int i = 0; i < 3000; i++)
        buffer_printf(&text, "{\"text\": \"%d\"}\n", i * 7919 % 10007);
    if (pack_gzip(&packed, text.data, text.length) < 0)
        test_skip("this build has no zlib");
    write_bytes(scratch_path("good"), packed.data, packed.length);
    EXPECT_ERROR(blame(scratch_path("good"), "gzip"), "not UTF-8");
    packed.data[packed.length - 6] ^= 1;  // in its checksum
    write_bytes(scratch_path("bad"), packed.data, packed.length);
    EXPECT_ERROR(blame(scratch_path("bad"), "gzip"), "gzip data is damaged near byte");
    write_bytes(scratch_path("plain"), text.data, text.length);
    EXPECT_ERROR(blame(scratch_path("plain"), "plain"), "not UTF-8");
    // If it cannot be read again, it is only reported as possibly damaged.
    EXPECT_ERROR(blame("/dev/null", "gzip"), "not UTF-8 (the input may be damaged; check it with `gzip -t /dev/null`)");
    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    buffer_free(&packed);
    buffer_free(&text);
    scratch_close();
}

// Tapes pad with zeros; anything else after the last member is damage.
TEST(gzip_padding) {
    char *path = golden(0);
    if (!has_codec(path)) {
        free(path);
        test_skip("this build has no gzip");
    }
    scratch_open();
    struct buffer bytes = read_bytes(path), out = {0};
    size_t length = bytes.length;
    for (int i = 0; i < 512; i++)
        buffer_append_byte(&bytes, 0);
    write_bytes(scratch_path("padded"), bytes.data, bytes.length);
    EXPECT_OK(read_whole(scratch_path("padded"), 1, 1 << 16, &out));
    bytes.data[length + 100] = 'x';
    write_bytes(scratch_path("garbage"), bytes.data, bytes.length);
    EXPECT_ERROR(read_whole(scratch_path("garbage"), 1, 1 << 16, &out), "gzip data is damaged");
    buffer_free(&bytes);
    buffer_free(&out);
    free(path);
    scratch_close();
}

TEST_MAIN(TEST_CASE(all_streams_of_a_file_are_read), TEST_CASE(format_and_position_are_known),
          TEST_CASE(truncation_is_noticed), TEST_CASE(damage_is_noticed), TEST_CASE(content_decides_and_not_the_name),
          TEST_CASE(short_and_strange_files), TEST_CASE(gzip_padding), TEST_CASE(files_that_are_not_text_are_named),
          TEST_CASE(damage_is_blamed_before_text))
