// The list of fastest choices, and its file: written and read back, merged with what others wrote, and hostile ones.
#include "base/file.h"
#include "ops/choices.h"
#include "ops/device.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY = 3, VALUE = 2 };

static void open_it(struct kept_choices *choices, const char *identity) {
    choices_open(choices, identity, KEY, VALUE);
}

static void add(struct kept_choices *choices, const char *key, const char *value) {
    choices_add(choices, key, value);
}

static bool has(const struct kept_choices *choices, const char *key, const char *value) {
    const void *found = choices_find(choices, key);
    return found && memcmp(found, value, VALUE) == 0;
}

TEST(what_was_chosen_stays) {
    struct kept_choices choices;
    open_it(&choices, "device 1");
    EXPECT(!choices_find(&choices, "abc"));
    add(&choices, "abc", "xy");
    add(&choices, "abd", "zz");
    add(&choices, "abc", "no");
    EXPECT(has(&choices, "abc", "no"));
    add(&choices, "abc", "xy");
    EXPECT_INT(choices.count, 2);
    EXPECT(has(&choices, "abc", "xy") && has(&choices, "abd", "zz") && !choices_find(&choices, "abe"));
    for (int i = 0; i < CHOICES_MOST + 10; i++) {
        unsigned char key[KEY] = {(unsigned char)(i & 255), (unsigned char)(i >> 8), 0}, value[VALUE] = {1, 2};
        choices_add(&choices, key, value);
    }
    EXPECT_INT(choices.count, CHOICES_MOST);
    EXPECT(has(&choices, "abc", "xy"));
    add(&choices, "abc", "ne");
    EXPECT(has(&choices, "abc", "ne"));
    choices_close(&choices);
}

TEST(text_there_and_back) {
    struct kept_choices first, second, other;
    struct buffer text = {0}, again = {0};
    open_it(&first, "device 1");
    open_it(&second, "device 1");
    open_it(&other, "device 10");
    add(&first, "abc", "xy");
    choices_add(&first, (unsigned char[KEY]){0, 255, 16}, (unsigned char[VALUE]){127, 128});
    choices_print(&first, &text);
    EXPECT_STRING(buffer_string(&text), "device 1\n616263 7879\n00ff10 7f80\n");
    add(&second, "abc", "??");
    choices_read(&second, buffer_string(&text));
    choices_read(&other, buffer_string(&text));
    EXPECT_INT(other.count, 0);
    EXPECT_INT(second.count, 2);
    EXPECT(has(&second, "abc", "??"));
    choices_print(&second, &again);
    EXPECT_STRING(buffer_string(&again), "device 1\n616263 3f3f\n00ff10 7f80\n");
    buffer_free(&text);
    buffer_free(&again);
    choices_close(&first);
    choices_close(&second);
    choices_close(&other);
}

TEST(hostile_texts) {
    static const struct {
        const char *text;
        int count;
    } rows[] = {{"", 0},
                {"device 1", 0},
                {"device 1\n", 0},
                {"device 2\n616263 7879\n", 0},
                {"device 1\n616263 7879", 0},
                {"device 1\n616263 787", 0},
                {"device 1\n616263", 0},
                {"device 1\n6162637879\n", 0},
                {"device 1\n616263 78791\n", 0},
                {"device 1\n61626G 7879\n", 0},
                {"device 1\n616263 7879\n\n616264 7879\n", 1},
                {"device 1\n616263 7879\n616264  7879\n", 1},
                {"device 1\n616263 7879\r\n", 0},
                {"device 1\n616263 7879\n616263 0000\n616264 7879\n", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kept_choices choices;
        char *copy = strdup(rows[i].text);  // so that a read past the end is detected
        open_it(&choices, "device 1");
        choices_read(&choices, copy);
        EXPECT_INT(choices.count, rows[i].count);
        choices_close(&choices);
        free(copy);
    }
}

TEST(files_of_several_writers) {
    char folder[] = "/tmp/bevatron-choices-XXXXXX";
    EXPECT(mkdtemp(folder));
    char *path = file_join(folder, "products"), *nowhere = file_join(folder, "no/products");
    struct kept_choices first, second, other, all;
    open_it(&first, "device 1");
    open_it(&second, "device 1");
    open_it(&other, "device 2");
    open_it(&all, "device 1");
    choices_load(&first, path);
    choices_load(&second, path);
    add(&first, "aaa", "11");
    choices_save(&first, path);
    add(&second, "bbb", "22");
    add(&second, "aaa", "33");
    choices_save(&second, path);
    EXPECT(has(&second, "aaa", "33") && has(&second, "bbb", "22"));
    choices_save(&first, path);
    // The file has everybody's; a list has only its own, because other ranks have the same list and would wait for the
    // same measurements.
    EXPECT(has(&first, "aaa", "11") && !choices_find(&first, "bbb") && first.count == 1);
    choices_load(&all, path);
    EXPECT(has(&all, "aaa", "11") && has(&all, "bbb", "22") && all.count == 2);
    // Choices of another device replace these.
    add(&other, "ccc", "44");
    choices_save(&other, path);
    EXPECT_INT(other.count, 1);
    // A file that cannot be written is reported, nothing more.
    choices_save(&other, nowhere);
    EXPECT(other.is_broken);
    choices_close(&first);
    choices_close(&second);
    choices_close(&other);
    choices_close(&all);
    EXPECT(unlink(path) == 0 && rmdir(folder) == 0);
    free(path);
    free(nowhere);
}

// Bytes from one rank to another, as in a broadcast.
struct post {
    unsigned char bytes[256];
    size_t sent, taken;
};

static void send(void *context, void *bytes, size_t count) {
    struct post *post = context;
    memcpy(post->bytes + post->sent, bytes, count);
    post->sent += count;
}

static void take(void *context, void *bytes, size_t count) {
    struct post *post = context;
    EXPECT(post->taken + count <= post->sent);
    memcpy(bytes, post->bytes + post->taken, count);
    post->taken += count;
}

TEST(one_rank_chooses_for_all) {
    for (int count = 0; count < 3; count++) {
        struct kept_choices first, second;
        struct post post = {0};
        open_it(&first, "device 1");
        open_it(&second, "device 2");
        if (count > 0)
            add(&first, "aaa", "11");
        if (count > 1)
            add(&first, "bbb", "22");
        add(&second, "aaa", "99");
        add(&second, "ccc", "33");
        choices_share(&first, &(struct device_peers){.rank = 0, .broadcast = send, .context = &post});
        choices_share(&second, &(struct device_peers){.rank = 1, .broadcast = take, .context = &post});
        EXPECT(post.taken == post.sent);
        EXPECT_INT(second.count, count);
        EXPECT(!choices_find(&second, "ccc") && has(&second, "aaa", "11") == (count > 0));
        add(&second, "ddd", "44");
        EXPECT(has(&second, "ddd", "44") && has(&second, "bbb", "22") == (count > 1));
        choices_close(&first);
        choices_close(&second);
    }
}

TEST_MAIN(TEST_CASE(what_was_chosen_stays), TEST_CASE(text_there_and_back), TEST_CASE(hostile_texts),
          TEST_CASE(files_of_several_writers), TEST_CASE(one_rank_chooses_for_all))
