// Files that users pass by mistake.
#include "base/file_patience.h"

#include "test.h"
#include <errno.h>
#include <string.h>

static const char *look(const char *text) {
    return file_looks_like(text, strlen(text));
}

TEST(looks) {
    EXPECT_STRING(look(""), "; it is empty: copy or download it again");
    EXPECT(strstr(look("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"), "git lfs pull"));
    EXPECT(strstr(look("<!DOCTYPE html>\n<html>"), "web page"));
    EXPECT(strstr(look("\r\n <HTML><body>404"), "web page"));
    EXPECT(strstr(look("<?xml version=\"1.0\"?>"), "XML"));
    EXPECT(strstr(look("\xef\xbb\xbf{}"), "byte order mark"));
    EXPECT_STRING(file_looks_like("PK\3\4\0\0", 6), "");  // files of torch.save begin like this
    EXPECT(strstr(file_looks_like("\x1f\x8b\0\0", 4), "gzip"));
    EXPECT_STRING(look("{\"a\": 1}"), "");
    EXPECT_STRING(look("<htm"), "");
    EXPECT_STRING(look("   "), "");
    // A NUL is not a space, although the table of spaces ends in one.
    EXPECT_STRING(file_looks_like("\0\0<html", 7), "");
}

TEST(remedies) {
    EXPECT_STRING(file_read_remedy(ENOENT), "check the path");
    EXPECT(strstr(file_read_remedy(EACCES), "chmod") && strstr(file_read_remedy(EMFILE), "ulimit -n"));
    // Who may not write is not helped by reading.
    EXPECT(strstr(file_write_remedy(EACCES), "must let you write") && !strstr(file_write_remedy(EACCES), "read"));
    EXPECT(strstr(file_write_remedy(EROFS), "read-only") && strstr(file_write_remedy(ENOSPC), "space"));
    EXPECT_STRING(file_write_remedy(ENOENT), "check the path");
    EXPECT(strstr(file_read_remedy(EACCES), "let you read") && strstr(file_read_remedy(EIO), "dmesg"));
}

TEST_MAIN(TEST_CASE(looks), TEST_CASE(remedies))
