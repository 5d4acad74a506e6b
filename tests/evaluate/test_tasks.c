// Tasks: templates, records, Python's random numbers, and the tokens of prompts as lm-evaluation-harness makes them.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "evaluate/internal.h"
#include "test.h"

// The reference numbers are Python's.
TEST(examples_are_drawn_as_by_python) {
    struct mt19937 random;
    int64_t out[11], order[10];
    static const int64_t first[] = {99, 56, 14, 0, 11}, next[] = {74, 4, 85, 88, 10},
                         many[] = {28883, 7657, 490, 5940, 38156, 2288, 5500, 6450, 23241, 15519, 1142},
                         shuffled[] = {0, 3, 7, 2, 1, 6, 4, 5, 8, 9}, few[] = {7, 1, 0};
    python_random_seed(&random, 1234);
    python_random_sample(&random, 100, 5, out);
    EXPECT(memcmp(out, first, sizeof first) == 0);
    python_random_sample(&random, 100, 5, out);
    EXPECT(memcmp(out, next, sizeof next) == 0);
    python_random_seed(&random, 1234);
    python_random_sample(&random, 39905, 11, out);
    EXPECT(memcmp(out, many, sizeof many) == 0);
    python_random_seed(&random, 1234);
    python_random_sample(&random, 9, 3, out);
    EXPECT(memcmp(out, few, sizeof few) == 0);
    for (int i = 0; i < 10; i++)
        order[i] = i;
    python_random_seed(&random, 1337);
    python_random_shuffle(&random, order, 10);
    EXPECT(memcmp(order, shuffled, sizeof shuffled) == 0);
}

static int render(const char *template, const char *document, int64_t element, struct buffer *out) {
    struct json *root;
    buffer_clear(out);
    EXPECT_OK(json_parse(&root, document, strlen(document), "document"));
    int status = template_render(template, root, element, out);
    json_free(root);
    return status;
}

TEST(templates_are_rendered) {
    static const char document[] = "{\"a\": {\"b\": [\"x y z\", 7, true, null]}, \"c\": \" \\u00c4b CD_e \\u00a0\", "
                                   "\"d\": \"\", \"k\": \"\\u0451\\u0160\", "
                                   "\"h\": \" [title] A [x] b [y\\n]  c  [z\"}";
    static const struct {
        const char *template, *text;  // NULL: refused
        int64_t element;
    } cases[] = {
        {"Q: {a.b.0}\n{{{a.b.1}}} {a.b.2}", "Q: x y z\n{7} true", 0},
        {"{a.b[]}", "7", 1},
        {"{c|strip|capitalize}",
         "\xC3\x84"
         "b cd_e",
         0},
        {"<{c|lstrip|rstrip|spaces}>",
         "<\xC3\x84"
         "b CD e>",
         0},
        {"{a.b.0|all_but_last_word}|{a.b.0|last_word}", "x y|z", 0},
        {"{d|all_but_last_word}|{d|last_word}|{d|strip}{d|capitalize}{d|hellaswag}", "||", 0},
        {"{c|before:_}.{c|after:_}",
         " \xC3\x84"
         "b CD.e \xC2\xA0",
         0},
        {"{h|hellaswag}", " A b [y\n] c [z", 0},
        {"{a.b.3}", NULL, 0},
        {"{a.b.4}", NULL, 0},
        {"{a.b}", NULL, 0},
        {"{e}", NULL, 0},
        {"{d|before:x}", NULL, 0},
        {"{a.b[]}", NULL, 4},
        {"{k|capitalize}", "\xD0\x81\xC5\xA1", 0},
    };
    struct buffer out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status = render(cases[i].template, document, cases[i].element, &out);
        EXPECT_INT(status, cases[i].text ? 0 : -1);
        if (cases[i].text)
            EXPECT_STRING(buffer_string(&out), cases[i].text);
    }
    buffer_free(&out);
    static const char *const wrong[] = {"{",           "}",           "{}",         "a { b",
                                        "{a|nothing}", "{a|strip:x}", "{a|before}", "{a|before:}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        EXPECT_INT(template_check(wrong[i]), -1);
}

// Templates may ask for much more than a document has.
TEST(what_templates_give_is_bounded) {
    enum { REPEATS = 20000, LENGTH = 1000 };
    struct buffer template = {0}, document = {0}, out = {0};
    for (int i = 0; i < REPEATS; i++)
        buffer_append_string(&template, "{q}");
    buffer_printf(&document, "{\"q\": \"%*s\"}", LENGTH, "");
    EXPECT_INT(render(buffer_string(&template), buffer_string(&document), 0, &out), -1);
    EXPECT(strstr(error_message(), "the template gives more than 16777216 bytes"));
    buffer_free(&template);
    buffer_free(&document);
    buffer_free(&out);

    struct json *root;
    int64_t count;
    static const char lists[] = "{\"a\": [1, 2, 3, 4], \"b\": [1, 2]}";
    EXPECT_OK(json_parse(&root, lists, strlen(lists), "document"));
    EXPECT_INT(template_count("{a[]} {b[]}", root, &count), -1);
    EXPECT(strstr(error_message(), "joins lists of 4 and of 2 elements"));
    EXPECT_OK(template_count("{a[]} {a[]}", root, &count));
    EXPECT_INT(count, 4);
    json_free(root);
}

static int read_records(const char *text) {
    struct documents documents = {.path = memory_string("own.jsonl")};
    struct task_record *records = NULL;
    buffer_append_string(&documents.file, text);
    int status = documents_parse(&documents);
    if (status == 0)
        status = task_records_take(&records, &documents);
    free(records);
    documents_free(&documents);
    return status;
}

#define GOOD "{\"name\":\"t\",\"kind\":\"choices\",\"context\":\"{q}\",\"choices\":[\"{a}\",\"{b}\"],\"answer\":\"0\""

TEST(records_are_checked) {
    static const struct {
        const char *line, *problem;
    } cases[] = {
        {GOOD ",\"contxt\":\"x\"}", "own.jsonl:2: a task has no member \"contxt\"; did you mean context?"},
        {GOOD ",\"context\":\"x\"}", "\"context\" stands there twice"},
        {GOOD ",\"shots\":1e9}", "\"shots\": it must be a whole number from 0 to 1024"},
        {GOOD ",\"shots\":\"1\"}", "\"shots\": it must be a whole number"},
        {GOOD ",\"labels\":[]}", "\"labels\": it must be a template, or an array of 1 to 8"},
        {GOOD ",\"labels\":[1]}", "\"labels\": it must be a text"},
        {GOOD ",\"group\":\"{x\"}", "\"group\": a template has a { without"},
        {GOOD ",\"filter\":\"strp\"}", "the filter \"strp\" is not known; did you mean strip?"},
        {GOOD ",\"metrics\":[\"perplexity\"]}", "a task of this kind has no metric \"perplexity\""},
        {GOOD ",\"metrics\":[\"f1\"]}", "the metric \"f1\" is not known"},
        {GOOD ",\"is_core\":1}", "\"is_core\": it must be true or false"},
        {GOOD ",\"baseline\":100}", "\"baseline\": it must be a percentage"},
        {GOOD "}\n" GOOD "}", "own.jsonl:3: there is another task \"t\" above"},
        {"{\"name\":\"../t\",\"kind\":\"rolling\",\"context\":\"x\"}", "the name of a task consists of"},
        {"{\"name\":\"t\",\"kind\":\"rolling\"}", "a task of this kind needs \"context\""},
        {"{\"name\":\"t\"}", "\"kind\" must be choices, contexts, ending or rolling"},
        {"[]", "own.jsonl:2: it is not a JSON object"},
        {"{\"name\":", "own.jsonl:2: the line is not valid JSON"},
        {"", "own.jsonl has no documents"},
    };
    EXPECT_OK(read_records("\n" GOOD "}\n\n"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = memory_printf("\n%s\n", cases[i].line);
        EXPECT_INT(read_records(text), -1);
        if (!strstr(error_message(), cases[i].problem))
            EXPECT_STRING(error_message(), cases[i].problem);
        free(text);
    }
}

TEST(tokens_are_those_of_the_harness) {
    struct tokenizer *tokenizer;
    struct buffer file = {0};
    EXPECT_OK(tokenizer_open(&tokenizer, &(struct tokenizer_options){.vocab_file = "tests/golden/bpe/vocab.json",
                                                                     .merge_file = "tests/golden/bpe/merges.txt"}));
    EXPECT_OK(file_read_all("tests/golden/tasks/requests.txt", 1 << 24, &file));
    struct task_prepared prepared = {0};
    char *rest = file.data, name[64], before[64] = "";
    long shots, window, last_shots = -1, last_window = -1;
    int64_t requests = 0, at = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        int used = 0;
        EXPECT_INT(sscanf(line, "%63s %ld %ld%n", name, &shots, &window, &used), 3);
        if (strcmp(name, before) != 0 || shots != last_shots || window != last_window) {
            EXPECT_INT(at, prepared.request_count);
            prepared_free(&prepared);
            prepared = (struct task_prepared){.task = task_rows};
            while (strcmp(prepared.task->name, name) != 0)
                prepared.task++;
            EXPECT_OK(prepared_make(&prepared, &(struct tasks_options){.folder = "tests/golden/tasks",
                                                                       .tokenizer = tokenizer,
                                                                       .window = window,
                                                                       .shots = shots}));
            at = 0;
        }
        memcpy(before, name, sizeof before);
        last_shots = shots;
        last_window = window;
        EXPECT(at < prepared.request_count);
        const struct task_request *request = &prepared.requests[at++];
        char *end = line + used;
        EXPECT_INT(request->first, strtol(end, &end, 10));
        for (int32_t i = 0; i < request->count; i++)
            EXPECT_INT(prepared.ids.ids[request->begin + i], strtol(end, &end, 10));
        EXPECT_STRING(end, "");
        requests++;
    }
    EXPECT_INT(at, prepared.request_count);
    EXPECT(requests > 200);
    prepared_free(&prepared);
    buffer_free(&file);
    tokenizer_free(tokenizer);
}

TEST_MAIN(TEST_CASE(examples_are_drawn_as_by_python), TEST_CASE(templates_are_rendered),
          TEST_CASE(what_templates_give_is_bounded), TEST_CASE(records_are_checked),
          TEST_CASE(tokens_are_those_of_the_harness))
