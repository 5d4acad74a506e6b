// Searches by halving the rest of the list, at the beginning of a word.
#include "base/word_list.h"

bool word_list_has(const struct word_list *list, const char *word, size_t length) {
    const char *words = list->words;
    size_t begin = 0, end = list->bytes;
    while (begin < end) {
        size_t at = begin + (end - begin) / 2, same = 0;
        while (at > begin && words[at - 1] != list->separator)
            at--;
        while (same < length && at + same < end && word[same] == words[at + same])
            same++;
        bool is_whole = at + same == end || words[at + same] == list->separator;
        if (same == length && is_whole)
            return true;
        // A word that is a prefix of another comes first.
        if (same == length || (!is_whole && (unsigned char)word[same] < (unsigned char)words[at + same])) {
            end = at > begin ? at - 1 : begin;
        } else {
            for (begin = at + same; begin < end && words[begin] != list->separator;)
                begin++;
            begin++;
        }
    }
    return false;
}
