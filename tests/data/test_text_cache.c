// Text as data: plain text is cut into the same documents however it is read; prints of files tell what has changed;
// the cache gives the same as preprocessing, once per content, and is rebuilt if damaged.
#include "data/text_cache.h"
#include "data/preprocess.h"
#include "fixture.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

// Numbers in lines of very different lengths; no line begins in some blocks.
static void write_plain(const char *path, int lines) {
    struct buffer text = {0};
    for (int i = 0; i < lines; i++) {
        int words = i % 97 == 96 ? 30000 : i * 7919 % 300;
        for (int k = 0; k < words; k++)
            buffer_printf(&text, "%d ", (i + k) % 900);
        buffer_append_byte(&text, '\n');
    }
    buffer_append_string(&text, "1 2 3");
    write_bytes(path, text.data, text.length);
    buffer_free(&text);
}

static struct tokenizer *open_null(void) {
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer, &(struct tokenizer_options){.type = "NullTokenizer", .vocab_size = 1000}));
    return tokenizer;
}

static void tokenize(const char *input, const char *prefix, int workers, size_t chunk) {
    struct tokenizer *tokenizer = open_null();
    struct preprocess_summary summary;
    struct preprocess_options options = {.format = TEXT_FORMAT_AUTO,
                                         .output_prefix = prefix,
                                         .append_eod = true,
                                         .restart = true,
                                         .workers = workers,
                                         .chunk_bytes = chunk,
                                         .journal_seconds = PREPROCESS_JOURNAL_SECONDS};
    string_list_add(&options.inputs, input);
    string_list_add(&options.keys, "text");
    EXPECT_OK(preprocess(&options, tokenizer, &summary));
    string_list_free(&options.inputs);
    string_list_free(&options.keys);
    tokenizer_free(tokenizer);
}

// The documents by a simple loop over the text: the lines that begin in one block.
static void expect_blocks(const char *path, const char *prefix, size_t bytes) {
    struct buffer text = read_bytes(path);
    struct index_reader *reader;
    EXPECT_OK(index_open(&reader, prefix));
    int64_t document = 0, tokens = 0;
    size_t block = 0, at = 0;
    while (at < text.length) {
        if (at / bytes != block && tokens > 0) {
            EXPECT_INT(index_length(reader, document), tokens + 1);
            document++;
            tokens = 0;
        }
        block = at / bytes;
        for (; at < text.length && text.data[at] != '\n'; at++)
            tokens += text.data[at] != ' ' && (at + 1 == text.length || strchr(" \n", text.data[at + 1]));
        at++;
    }
    EXPECT_INT(index_length(reader, document), tokens + 1);
    EXPECT_INT(reader->document_count, document + 1);
    EXPECT_INT(reader->sequence_count, document + 1);
    index_close(reader);
    buffer_free(&text);
}

static void expect_same_files(const char *a, const char *b) {
    struct buffer one = read_bytes(a), other = read_bytes(b);
    EXPECT_INT(one.length, other.length);
    EXPECT(memcmp(one.data, other.data, one.length) == 0);
    buffer_free(&one);
    buffer_free(&other);
}

// A text of 512 KiB to 1 MiB is cut into blocks of 2 KiB. A pipe is read as a stream, whose size is not known.
TEST(plain_text_is_cut_alike_however_it_is_read) {
    scratch_open();
    write_plain(scratch_path("t.txt"), 400);
    tokenize(scratch_path("t.txt"), scratch_path("a"), 1, 0);
    expect_blocks(scratch_path("t.txt"), scratch_path("a_text_document"), 2048);
    static const size_t chunks[] = {1, 70000, 200000, 1 << 22};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        tokenize(scratch_path("t.txt"), scratch_path("b"), 3, chunks[i]);
        expect_same_files(scratch_path("a_text_document.bin"), scratch_path("b_text_document.bin"));
        expect_same_files(scratch_path("a_text_document.idx"), scratch_path("b_text_document.idx"));
        EXPECT(mkfifo(scratch_path("pipe"), 0600) == 0);
        pid_t writer = fork();
        if (writer == 0) {
            char *command = memory_printf("cat %s/t.txt > %s/pipe", scratch, scratch);
            _exit(system(command) != 0);
        }
        tokenize(scratch_path("pipe"), scratch_path("c"), 2, chunks[i]);
        waitpid(writer, NULL, 0);
        unlink(scratch_path("pipe"));
        expect_blocks(scratch_path("t.txt"), scratch_path("c_text_document"), 65536);
    }
    scratch_close();
}

TEST(formats_are_told_by_name_and_content) {
    scratch_open();
    static const struct {
        const char *name, *text;
        bool is_plain;
    } rows[] = {{"a.jsonl", "not an object", false},
                {"b.json", "", false},
                {"c.txt", "Once {\"text\"", true},
                {"d.txt", "{\"text\": 1}", false},
                {"e", " \n{ \"a\"", false},
                {"f", "{a}", true},
                {"g", "", true},
                {"h", "\xEF\xBB\xBF{}", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool is_plain;
        write_bytes(scratch_path(rows[i].name), rows[i].text, strlen(rows[i].text));
        EXPECT_OK(text_format_find(&is_plain, TEXT_FORMAT_AUTO, scratch_path(rows[i].name)));
        if (is_plain != rows[i].is_plain)
            test_fail("%s is taken for %s", rows[i].name, is_plain ? "plain text" : "JSON Lines");
    }
    bool is_plain;
    write_bytes(scratch_path("p"), "PAR1", 4);
    EXPECT_OK(text_format_find(&is_plain, TEXT_FORMAT_AUTO, scratch_path("p")));
    EXPECT(!is_plain);
    EXPECT_OK(text_format_find(&is_plain, TEXT_FORMAT_PLAIN, scratch_path("p")));
    EXPECT(is_plain);
    EXPECT_OK(text_format_find(&is_plain, TEXT_FORMAT_AUTO, "-"));
    EXPECT(is_plain);
    EXPECT_OK(text_format_find(&is_plain, TEXT_FORMAT_JSONL, "-"));
    EXPECT(!is_plain);
    scratch_close();
}

static void change_byte(const char *path, off_t at) {
    int file = open(path, O_RDWR);
    struct stat status;
    char byte;
    EXPECT(file >= 0 && fstat(file, &status) == 0 && pread(file, &byte, 1, at) == 1);
    byte ^= 1;
    EXPECT(pwrite(file, &byte, 1, at) == 1);
    // As if nothing had been written.
    EXPECT(futimens(file, (struct timespec[]){status.st_atim, status.st_mtim}) == 0);
    close(file);
}

// A sparse file of five pieces and a bit.
TEST(prints_tell_what_has_changed) {
    scratch_open();
    const char *path = scratch_path("large");
    int64_t bytes = 5 * (int64_t)FILE_PRINT_PIECE_BYTES + 12345;
    write_bytes(path, "x", 1);
    EXPECT(truncate(path, bytes) == 0);
    struct file_print print;
    char before[65], after[65];
    EXPECT_OK(file_print_take(&print, path, "name"));
    EXPECT_STRING(print.path, "name");
    EXPECT_INT(file_print_pieces(print.bytes), 6);
    EXPECT_INT(file_print_check(&print, path), 1);
    file_print_digest(&print, before);
    // The first and the last piece are always checked, and all of them if the time differs.
    static const int64_t places[] = {3, 5 * (int64_t)FILE_PRINT_PIECE_BYTES + 12344};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        change_byte(path, places[i]);
        EXPECT_INT(file_print_check(&print, path), 0);
        change_byte(path, places[i]);
        EXPECT_INT(file_print_check(&print, path), 1);
    }
    change_byte(path, 2 * (off_t)FILE_PRINT_PIECE_BYTES + 7);
    EXPECT(utimensat(AT_FDCWD, path, NULL, 0) == 0);
    EXPECT_INT(file_print_check(&print, path), 0);
    struct file_print other;
    EXPECT_OK(file_print_take(&other, path, "name"));
    file_print_digest(&other, after);
    EXPECT(strcmp(before, after) != 0);
    EXPECT(truncate(path, bytes - 1) == 0);
    EXPECT_INT(file_print_check(&other, path), 0);
    unlink(path);
    EXPECT_INT(file_print_check(&other, path), 0);
    file_print_free(&print);
    file_print_free(&other);
    scratch_close();
}

TEST(lists_of_prints_are_read_as_written) {
    scratch_open();
    write_bytes(scratch_path("a"), "some text", 9);
    struct file_print prints[2];
    EXPECT_OK(file_print_take(&prints[0], scratch_path("a"), "a \"b\"\n"));
    write_bytes(scratch_path("e"), "", 0);
    EXPECT_OK(file_print_take(&prints[1], scratch_path("e"), "e"));
    struct file_print_list list = {.about = "what\nfor", .items = prints, .count = 2}, back;
    EXPECT_OK(file_print_list_write(&list, scratch_path("list")));
    EXPECT_OK(file_print_list_read(&back, scratch_path("list")));
    EXPECT_STRING(back.about, "what\nfor");
    EXPECT_INT(back.count, 2);
    EXPECT_STRING(back.items[0].path, "a \"b\"\n");
    EXPECT_INT(back.items[0].bytes, 9);
    EXPECT_INT(back.items[0].modified_ns, prints[0].modified_ns);
    EXPECT(back.items[0].pieces[0] == prints[0].pieces[0]);
    file_print_list_free(&back);
    static const struct {
        const char *text, *error;
    } bad[] = {{"[]", "does not list files"},
               {"{\"format\": 1, \"about\": \"\"}", "does not list files"},
               {"{\"format\": 2, \"about\": \"\", \"files\": []}", "another version"},
               {"{\"format\": 1, \"about\": \"\", \"files\": [7]}", "has no path or no digests"},
               {"{\"format\": 1, \"about\": \"\", \"files\": [{\"path\": \"p\", \"bytes\": -1, \"modified_ns\": 0, "
                "\"pieces\": \"\"}]}",
                "a size is negative"},
               {"{\"format\": 1, \"about\": \"\", \"files\": [{\"path\": \"p\", \"bytes\": 9223372036854775807, "
                "\"modified_ns\": 0, \"pieces\": \"0123456789abcdef\"}]}",
                "the digests are not those"},
               {"{\"format\": 1, \"about\": \"\", \"files\": [{\"path\": \"p\", \"bytes\": 5, \"modified_ns\": 0, "
                "\"pieces\": \"0123456789abcdeX\"}]}",
                "the digests are not those"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_ERROR(file_print_list_parse(&back, bad[i].text, strlen(bad[i].text), "LIST"), bad[i].error);
    file_print_free(&prints[0]);
    file_print_free(&prints[1]);
    scratch_close();
}

static int builds;

static int build_entry(void *context, const char *folder) {
    char *path = file_join(folder, "file");
    builds++;
    int status = context ? error_set("it cannot be made") : file_write_all(path, "made", 4);
    free(path);
    return status;
}

TEST(entries_are_whole_or_not_there) {
    scratch_open();
    static const char *const files[] = {"file", NULL};
    struct string_list roots = {0};
    write_bytes(scratch_path("a_file"), "", 0);
    string_list_add(&roots, scratch_path("a_file"));  // cannot be a folder
    string_list_add(&roots, scratch_path("cache"));
    struct cache_entry entry = {.roots = &roots,
                                .name = "entry",
                                .description = "of this",
                                .files = files,
                                .doing = "testing",
                                .build = build_entry,
                                .context = &builds};
    char *folder, *path = memory_string(scratch_path("cache/entry/file"));
    builds = 0;
    EXPECT_ERROR(cache_entry_open(&folder, &entry), "cannot write the cache in");
    entry.context = NULL;
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(cache_entry_open(&folder, &entry));
        EXPECT_STRING(folder, scratch_path("cache/entry"));
        free(folder);
        EXPECT_INT(builds, 2);
    }
    change_byte(path, 1);
    EXPECT_OK(cache_entry_open(&folder, &entry));
    free(folder);
    EXPECT_INT(builds, 3);
    // Another description under the same name is a different entry.
    entry.description = "of that";
    EXPECT_OK(cache_entry_open(&folder, &entry));
    free(folder);
    EXPECT_INT(builds, 4);
    write_bytes(scratch_path("cache/entry/manifest.json"), "{", 1);
    EXPECT_OK(cache_entry_open(&folder, &entry));
    free(folder);
    EXPECT_INT(builds, 5);
    EXPECT(!file_exists(scratch_path("cache/entry.lock")));
    roots.count = 1;
    entry.name = "other";
    EXPECT_ERROR(cache_entry_open(&folder, &entry), "give a writable folder with --data-cache-path");
    roots.count = 2;
    char *name = cache_entry_name("a name/with: all", "x"), *other = cache_entry_name("a name/with: all", "y");
    EXPECT(strncmp(name, "a_name_with__all-", 17) == 0 && strlen(name) == 33 && strcmp(name, other) != 0);
    free(name);
    free(other);
    free(path);
    string_list_free(&roots);
    scratch_close();
}

// The dataset of a text equals that of preprocess, and there is one for each content.
TEST(datasets_of_text) {
    scratch_open();
    struct text_cache cache = {.key = "text", .threads = 2};
    struct text_source source;
    struct tokenizer *tokenizer = open_null();
    const struct text_dataset wanted = {.tokenizer = tokenizer, .identity = "Null 1000\n", .append_eod = true};
    char *prefix, *again;
    write_plain(scratch_path("t.txt"), 100);
    string_list_add(&cache.roots, scratch_path("cache"));
    EXPECT(text_source_exists(scratch_path("t.txt")) && !text_source_exists(scratch_path("u.txt")));
    char *root = text_source_default_root("/data/*/t.txt");
    EXPECT_STRING(root, "/data/.bevatron-cache");
    free(root);
    char *name = memory_string(scratch_path("t.txt"));
    EXPECT_OK(text_source_open(&source, name, &cache));
    EXPECT_OK(text_cache_dataset(&prefix, &cache, &source, &wanted));
    tokenize(name, scratch_path("a"), 1, 0);
    char *bin = memory_printf("%s.bin", prefix), *idx = memory_printf("%s.idx", prefix);
    expect_same_files(bin, scratch_path("a_text_document.bin"));
    expect_same_files(idx, scratch_path("a_text_document.idx"));
    EXPECT(text_source_exists(name) && !text_source_exists(prefix) && !text_source_exists(bin));
    text_source_close(&source);
    // After moving, it is the same text.
    write_bytes(scratch_path("other.txt"), "1 2 3\n", 6);
    EXPECT_OK(text_source_open(&source, scratch_path("other.txt"), &cache));
    text_source_close(&source);
    EXPECT(rename(name, scratch_path("moved.txt")) == 0);
    EXPECT_OK(text_source_open(&source, scratch_path("moved.txt"), &cache));
    EXPECT_OK(text_cache_dataset(&again, &cache, &source, &wanted));
    EXPECT_STRING(again, prefix);
    text_source_close(&source);
    free(again);
    change_byte(scratch_path("moved.txt"), 0);
    EXPECT_OK(text_source_open(&source, scratch_path("moved.txt"), &cache));
    EXPECT_OK(text_cache_dataset(&again, &cache, &source, &wanted));
    EXPECT(strcmp(strrchr(prefix, '-'), strrchr(again, '-')) != 0);
    text_source_close(&source);
    free(again);
    free(prefix);
    free(bin);
    free(idx);
    free(name);
    tokenizer_free(tokenizer);
    string_list_free(&cache.roots);
    scratch_close();
}

TEST_MAIN(TEST_CASE(plain_text_is_cut_alike_however_it_is_read), TEST_CASE(formats_are_told_by_name_and_content),
          TEST_CASE(prints_tell_what_has_changed), TEST_CASE(lists_of_prints_are_read_as_written),
          TEST_CASE(entries_are_whole_or_not_there), TEST_CASE(datasets_of_text))
