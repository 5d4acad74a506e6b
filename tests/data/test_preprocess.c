// JSON Lines to datasets: bytes as in the description of Megatron's format, documents of several sequences, empty ones,
// bad lines, compressed and several inputs, the same files for every number of workers, nothing left after an error.
#include "data/preprocess.h"
#include "broken_disk.h"
#include "fixture.h"
#include "text_fixture.h"

struct job {
    struct preprocess_options options;
    char *output_prefix;
    struct tokenizer *tokenizer;
    struct preprocess_summary summary;
};

static struct tokenizer *open_null(int64_t vocab_size) {
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "NullTokenizer", .vocab_size = vocab_size};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    return tokenizer;
}

static void job_open(struct job *job, struct tokenizer *tokenizer) {
    scratch_open();
    *job = (struct job){.tokenizer = tokenizer, .output_prefix = memory_string(scratch_path("out"))};
    job->options.workers = 1;
    job->options.journal_seconds = PREPROCESS_JOURNAL_SECONDS;
    job->options.output_prefix = job->output_prefix;
    string_list_add(&job->options.inputs, scratch_path("in.jsonl"));
    string_list_add(&job->options.keys, "text");
}

static void job_close(struct job *job) {
    free(job->summary.bad_lines);
    string_list_free(&job->options.inputs);
    string_list_free(&job->options.keys);
    free(job->output_prefix);
    tokenizer_free(job->tokenizer);
    scratch_close();
}

static int job_run(struct job *job, const char *lines) {
    write_bytes(scratch_path("in.jsonl"), lines, strlen(lines));
    free(job->summary.bad_lines);
    job->options.restart = true;
    return preprocess(&job->options, job->tokenizer, &job->summary);
}

static void expect_hex(const char *path, const char *hex) {
    struct buffer bytes = read_bytes(path), text = {0};
    for (size_t i = 0; i < bytes.length; i++)
        buffer_printf(&text, "%02x", (unsigned char)bytes.data[i]);
    EXPECT_STRING(buffer_string(&text), hex);
    buffer_free(&bytes);
    buffer_free(&text);
}

// The worked example of the format: [5,6,7,99], [], [8,9,99], 16 bits.
TEST(bytes_of_the_worked_example) {
    struct job job;
    job_open(&job, open_null(99));
    job.options.append_eod = true;
    EXPECT_OK(job_run(&job, "{\"text\": \"5 6 7\"}\n{\"text\": \"\"}\n\n{\"text\": \"8 9\"}"));
    expect_hex(scratch_path("out_text_document.bin"), "0500060007006300080009006300");
    expect_hex(scratch_path("out_text_document.idx"),
               "4d4d4944494458000001000000000000000802000000000000000400000000000000"
               "040000000300000000000000000000000800000000000000"
               "0000000000000000010000000000000001000000000000000200000000000000");
    EXPECT_INT(job.summary.counts.documents, 3);
    EXPECT_INT(job.summary.counts.empty_documents, 1);
    EXPECT_INT(job.summary.counts.tokens, 7);
    EXPECT_INT(job.summary.counts.blank_lines, 1);
    EXPECT_INT(scratch_entries(), 4);
    job_close(&job);
}

static void expect_dataset(const char *prefix, const int64_t *documents, int64_t document_count,
                           const int64_t *lengths) {
    struct index_reader *reader;
    EXPECT_OK(index_open(&reader, prefix));
    EXPECT_OK(index_verify(reader));
    EXPECT_INT(reader->document_count, document_count);
    for (int64_t i = 0; i <= document_count; i++)
        EXPECT_INT(index_document_begin(reader, i), documents[i]);
    for (int64_t i = 0; i < reader->sequence_count; i++)
        EXPECT_INT(index_length(reader, i), lengths[i]);
    index_close(reader);
}

// Arrays are documents of several sequences; empty strings in them are dropped; the end belongs to the last sequence.
TEST(arrays_of_strings_and_several_keys) {
    struct job job;
    job_open(&job, open_null(99));
    string_list_add(&job.options.keys, "title");
    job.options.append_eod = true;
    EXPECT_OK(job_run(&job, "{\"title\": \"1\", \"text\": [\"5 6\", \"\", \"7\"]}\n"
                            "{\"text\": [], \"title\": \"2 3\"}\n"
                            "{\"text\": [\"\", \" \"], \"title\": []}\n"
                            "{\"text\": \"4\", \"title\": [\"\", \"6 6 6\", \"\"]}\n"));
    expect_dataset(scratch_path("out_text_document"), (const int64_t[]){0, 2, 2, 2, 3}, 4, (const int64_t[]){2, 2, 2});
    expect_dataset(scratch_path("out_title_document"), (const int64_t[]){0, 1, 2, 2, 3}, 4, (const int64_t[]){2, 3, 4});
    EXPECT_INT(job.summary.counts.documents, 4);
    EXPECT_INT(job.summary.counts.empty_documents, 2);
    EXPECT_INT(scratch_entries(), 7);
    job_close(&job);
}

TEST(large_vocabularies_take_32_bits) {
    struct job job;
    job_open(&job, open_null(65498));
    EXPECT_OK(job_run(&job, "{\"text\": \"65498\"}\n"));
    expect_hex(scratch_path("out_text_document.bin"), "daff");
    job_close(&job);
    job_open(&job, open_null(65499));
    EXPECT_OK(job_run(&job, "{\"text\": \"65499\"}\n"));
    expect_hex(scratch_path("out_text_document.bin"), "dbff0000");
    job_close(&job);
}

TEST(a_bad_line_is_an_error_and_leaves_nothing) {
    struct job job;
    job_open(&job, open_null(99));
    string_list_add(&job.options.keys, "title");
    static const struct {
        const char *lines, *message;
    } cases[] = {
        {"{\"text\": \"1\", \"title\": \"2\"}\n{\"text\": \"1\"\n", "in.jsonl:2: not a valid JSON line"},
        {"{\"text\": \"1\", \"title\": \"2\"}\n\n{\"text\": \"1\"}\n",
         "in.jsonl:3: the object has no member \"title\""},
        {"{\"text\": \"1\", \"title\": 2}\n", "in.jsonl:1: "},
        {"{\"text\": \"1 x\", \"title\": \"2\"}\n", "in.jsonl:1: byte 2 of the text"},
        {"{\"text\": \"1\", \"title\": \"\xFF\"}\n", "in.jsonl:1: "},
        {"", "no documents"},
        {"\n \n", "no documents"},
    };
    for (int workers = 1; workers <= 3; workers += 2)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            job.options.workers = workers;
            EXPECT_ERROR(job_run(&job, cases[i].lines), cases[i].message);
            EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
            EXPECT_INT(scratch_entries(), 1);
        }
    job_close(&job);
}

// A line that is bad under one key is skipped under every key.
TEST(bad_lines_can_be_skipped) {
    struct job job;
    job_open(&job, open_null(99));
    string_list_add(&job.options.keys, "title");
    job.options.skip_bad_lines = true;
    EXPECT_OK(job_run(&job, "{\"text\": \"1 2 3\", \"title\": \"4\"}\n"
                            "no JSON\n"
                            "{\"text\": [\"5\", \"6\"], \"title\": \"7 bad\"}\n"
                            "{\"text\": \"8\"}\n"
                            "{\"text\": \"9\", \"title\": \"10\xFF\"}\n"
                            "{\"text\": \"11 12\", \"title\": \"13\"}\n"));
    EXPECT_INT(job.summary.counts.bad_lines, 4);
    EXPECT_INT(job.summary.counts.documents, 2);
    expect_hex(scratch_path("out_text_document.bin"), "0100020003000b000c00");
    expect_hex(scratch_path("out_title_document.bin"), "04000d00");
    job_close(&job);
}

TEST(ill_formed_utf8_can_be_replaced) {
    struct job job;
    job_open(&job, open_golden());
    job.options.replace_ill_formed = true;
    EXPECT_OK(job_run(&job, "{\"text\": \"a\xE4\xB8z\"}\n{\"text\": \"a\xEF\xBF\xBDz\"}\n"));
    EXPECT_INT(job.summary.counts.repaired_lines, 1);
    struct buffer bytes = read_bytes(scratch_path("out_text_document.bin"));
    EXPECT(bytes.length > 0 && memcmp(bytes.data, bytes.data + bytes.length / 2, bytes.length / 2) == 0);
    buffer_free(&bytes);
    job_close(&job);
}

TEST(options_are_checked) {
    struct job job;
    job_open(&job, open_null(99));
    string_list_add(&job.options.keys, "text");
    EXPECT_ERROR(job_run(&job, "{\"text\": \"1\"}\n"), "twice");
    string_list_free(&job.options.keys);
    EXPECT_ERROR(job_run(&job, "{\"text\": \"1\"}\n"), "--json-keys");
    string_list_add(&job.options.keys, "a/b");
    EXPECT_ERROR(job_run(&job, "{\"a/b\": \"1\"}\n"), "file name");
    string_list_free(&job.options.keys);
    string_list_add(&job.options.keys, "text");
    job.options.output_prefix = "/dev/null/such/folder";
    EXPECT_ERROR(job_run(&job, "{\"text\": \"1\"}\n"), "/dev/null");
    job.options.output_prefix = job.output_prefix;
    string_list_add(&job.options.inputs, scratch_path("missing"));
    EXPECT_ERROR(job_run(&job, "{\"text\": \"1\"}\n"), "missing");
    EXPECT_INT(scratch_entries(), 1);
    job_close(&job);
}

// Sentences become sequences, as if given one by one.
TEST(sentences_are_sequences) {
    static const struct {
        const char *whole, *parts;
        bool keep_newlines;
    } cases[] = {
        {"Hello there. How are you?\\n\\nFine, thanks! And",
         "\"Hello there.\", \"How are you?\", \"Fine, thanks!\", \"And\"", false},
        {"Hello there. How are you?\\n\\nFine, thanks! And",
         "\"Hello there. \", \"How are you?\\n\\n\", \"Fine, thanks! \", \"And\"", true},
        {"", "", false},
        {" \\n ", "", false},
    };
    struct buffer line = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job job;
        job_open(&job, open_golden());
        job.options.append_eod = true;
        buffer_printf(&line, "{\"text\": [%s]}\n", cases[i].parts);
        EXPECT_OK(job_run(&job, buffer_string(&line)));
        buffer_clear(&line);
        buffer_printf(&line, "{\"text\": \"%s\"}\n", cases[i].whole);
        job.options.split_sentences = true;
        job.options.keep_newlines = cases[i].keep_newlines;
        EXPECT_OK(job_run(&job, buffer_string(&line)));
        buffer_clear(&line);
        static const char *const endings[] = {"bin", "idx"};
        for (int file = 0; file < 2; file++) {
            char name[64];
            snprintf(name, sizeof name, "out_text_document.%s", endings[file]);
            struct buffer expected = read_bytes(scratch_path(name));
            snprintf(name, sizeof name, "out_text_sentence.%s", endings[file]);
            struct buffer found = read_bytes(scratch_path(name));
            EXPECT_INT(found.length, expected.length);
            EXPECT(found.length == 0 || memcmp(found.data, expected.data, found.length) == 0);
            buffer_free(&expected);
            buffer_free(&found);
        }
        job_close(&job);
    }
    buffer_free(&line);
}

// About 3 MB of lines of all lengths, some far longer than the others, in three files.
static void write_corpus(struct job *job) {
    uint64_t state = 21;
    struct buffer lines = {0}, text = {0};
    string_list_free(&job->options.inputs);
    for (int file = 0; file < 3; file++) {
        buffer_clear(&lines);
        while (lines.length < 1000000) {
            size_t length = next_random(&state) % 500;
            if (next_random(&state) % 200 == 0)
                length = 100000;
            if (next_random(&state) % 10 == 0)
                length = 0;
            random_bytes(&state, &text, length);
            struct json_writer json = {.out = &lines};
            json_begin_object(&json);
            json_key(&json, "text");
            json_string(&json, buffer_string(&text), text.length);
            json_end_object(&json);
            buffer_append_byte(&lines, '\n');
        }
        char name[16];
        snprintf(name, sizeof name, "in%d", file);
        write_bytes(scratch_path(name), lines.data, lines.length);
        string_list_add(&job->options.inputs, scratch_path(name));
    }
    buffer_free(&lines);
    buffer_free(&text);
}

TEST(output_does_not_depend_on_workers) {
    struct job job;
    job_open(&job, open_golden());
    write_corpus(&job);
    job.options.append_eod = true;
    struct buffer tokens = {0}, index = {0};
    for (int workers = 1; workers <= 13; workers += 4) {
        job.options.workers = workers;
        job.options.restart = workers > 1;
        EXPECT_OK(preprocess(&job.options, job.tokenizer, &job.summary));
        struct buffer now = read_bytes(scratch_path("out_text_document.bin"));
        struct buffer now_index = read_bytes(scratch_path("out_text_document.idx"));
        if (workers > 1) {
            EXPECT(now.length == tokens.length && memcmp(now.data, tokens.data, now.length) == 0);
            EXPECT(now_index.length == index.length && memcmp(now_index.data, index.data, index.length) == 0);
        }
        buffer_free(&tokens);
        buffer_free(&index);
        tokens = now;
        index = now_index;
    }
    EXPECT(job.summary.counts.documents > 1000 && job.summary.counts.empty_documents > 100);
    buffer_free(&tokens);
    buffer_free(&index);
    job_close(&job);
}

// Two keys have four files. If any of them cannot be synced, none of the new ones appears, and the same command
// finishes the work later.
TEST(several_keys_are_all_or_nothing) {
    static const char *const lines[] = {"{\"text\": \"5 6\", \"title\": \"7\"}", "{\"text\": \"1\", \"title\": \"2\"}"};
    struct job job;
    job_open(&job, open_null(99));
    string_list_add(&job.options.keys, "title");
    write_bytes(scratch_path("in.jsonl"), lines[0], strlen(lines[0]));
    int failures = 0;
    for (int n = 1; n <= 20; n++) {
        syncs_until_failure = n;
        if (preprocess(&job.options, job.tokenizer, &job.summary) == 0)
            break;
        EXPECT(strstr(error_message(), "out.unfinished"));
        EXPECT_INT(scratch_entries(), 1);
        failures++;
    }
    syncs_until_failure = 0;
    EXPECT(failures >= 9);  // settings, seven files of the store, two .idx, the journal
    EXPECT_INT(scratch_entries(), 7);
    write_bytes(scratch_path("in.jsonl"), lines[1], strlen(lines[1]));
    // A finished dataset is replaced only on purpose.
    EXPECT_ERROR(preprocess(&job.options, job.tokenizer, &job.summary),
                 "out_text_document exists; give another --output-prefix, or replace it with --restart");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    EXPECT_INT(scratch_entries(), 7);
    job.options.restart = true;
    for (int n = 1; n <= failures; n++) {
        syncs_until_failure = n;
        EXPECT_ERROR(preprocess(&job.options, job.tokenizer, &job.summary), "out.unfinished");
        EXPECT_INT(scratch_entries(), 7);
        expect_hex(scratch_path("out_text_document.bin"), "05000600");
        expect_hex(scratch_path("out_title_document.bin"), "0700");
    }
    syncs_until_failure = 0;
    // Renames are not undone: the run stays in its folder and can be resumed, without --restart.
    break_folders = true;
    for (int n = 1; n <= 20; n++) {
        syncs_until_failure = n;
        job.options.restart = job.options.restart && !file_exists(scratch_path("out.unfinished/journal"));
        if (preprocess(&job.options, job.tokenizer, &job.summary) == 0)
            break;
        EXPECT(n < 20);
    }
    break_folders = false;
    syncs_until_failure = 0;
    expect_hex(scratch_path("out_text_document.bin"), "0100");
    expect_hex(scratch_path("out_title_document.bin"), "0200");
    EXPECT_INT(scratch_entries(), 7);
    job_close(&job);
}

TEST_MAIN(TEST_CASE(bytes_of_the_worked_example), TEST_CASE(arrays_of_strings_and_several_keys),
          TEST_CASE(large_vocabularies_take_32_bits), TEST_CASE(a_bad_line_is_an_error_and_leaves_nothing),
          TEST_CASE(bad_lines_can_be_skipped), TEST_CASE(ill_formed_utf8_can_be_replaced),
          TEST_CASE(options_are_checked), TEST_CASE(sentences_are_sequences),
          TEST_CASE(output_does_not_depend_on_workers), TEST_CASE(several_keys_are_all_or_nothing))
