// Known beginnings and known errors. See file_remedy.h.
#include "base/file_remedy.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

const char *file_looks_like(const void *bytes, size_t size) {
    static const struct {
        const char *beginning, *look;
    } rows[] = {
        {"version https://git-lfs",
         "; it is only the pointer that Git LFS puts in its place: `git lfs pull` fetches it"},
        {"<!doctype", "; it is a web page: download the file itself"},
        {"<html", "; it is a web page: download the file itself"},
        {"\xef\xbb\xbf", "; it starts with a byte order mark: save it as UTF-8 without one"},
        {"<?xml", "; it is XML: download the file itself"},
        {"\x1f\x8b", "; it is packed by gzip: unpack it"},
    };
    const char *text = bytes;
    if (size == 0)
        return "; it is empty: copy or download it again";
    size_t blanks = 0;
    while (blanks < size && strchr(" \t\r\n", text[blanks]) && text[blanks])
        blanks++;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length = strlen(rows[i].beginning);
        if (size - blanks >= length && strncasecmp(text + blanks, rows[i].beginning, length) == 0)
            return rows[i].look;
    }
    return "";
}

const char *file_read_remedy(int error) {
    if (error == EACCES || error == EPERM)
        return "its owner must let you read it, and look into the folders above it (chmod)";
    if (error == EMFILE || error == ENFILE)
        return "raise the limit of open files (ulimit -n)";
    if (error == EIO || error == ESTALE || error == ETIMEDOUT)
        return "check the disk and its file server (dmesg)";
    if (error == ENOMEM)
        return "free memory on this machine";
    return "check the path";
}

const char *file_write_remedy(int error) {
    if (error == EACCES || error == EPERM)
        return "its owner must let you write to the folder (chmod), or name another one";
    if (error == EROFS)
        return "its file system is read-only; name another folder";
    if (error == ENOSPC || error == EDQUOT)
        return "free some space, or name another folder";
    return file_read_remedy(error);
}
