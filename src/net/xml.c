// A reader of tags and text. See xml.h.
#include "net/xml.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const struct xml *xml, const char *text) {
    size_t length = strlen(text);
    return xml->length - xml->at >= length && memcmp(xml->data + xml->at, text, length) == 0;
}

// Skips everything up to and including `end`; false if `end` is missing.
static bool pass(struct xml *xml, const char *end) {
    const char *found = memmem(xml->data + xml->at, xml->length - xml->at, end, strlen(end));
    if (!found)
        return false;
    xml->at = (size_t)(found - xml->data) + strlen(end);
    return true;
}

static void append_code(struct buffer *out, uint32_t code) {
    char bytes[4];
    bool is_character = code > 0 && code < 0x110000 && !(code >= 0xD800 && code < 0xE000);
    size_t count = utf8_encode(is_character ? code : 0xFFFD, bytes);
    buffer_append(out, bytes, count);
}

// The entity at '&', whose name ends before `end`; false if it is not one of XML's own.
static bool append_entity(struct buffer *out, const char *name, size_t length) {
    static const struct {
        const char *name;
        char byte;
    } entities[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++)
        if (strlen(entities[i].name) == length && memcmp(name, entities[i].name, length) == 0) {
            buffer_append_byte(out, entities[i].byte);
            return true;
        }
    if (length < 2 || length > 9 || name[0] != '#')
        return false;
    char digits[10] = {0}, *end;
    bool is_hexadecimal = name[1] == 'x';
    memcpy(digits, name + 1 + is_hexadecimal, length - 1 - (size_t)is_hexadecimal);
    unsigned long code = strtoul(digits, &end, is_hexadecimal ? 16 : 10);
    if (*end || !digits[0])
        return false;
    append_code(out, (uint32_t)code);
    return true;
}

static bool append_text(struct buffer *out, const char *text, size_t length) {
    for (size_t i = 0; i < length;) {
        const char *mark = memchr(text + i, '&', length - i);
        size_t plain = mark ? (size_t)(mark - text) - i : length - i;
        buffer_append(out, text + i, plain);
        i += plain;
        if (!mark)
            break;
        const char *end = memchr(text + i, ';', length - i);
        if (!end || !append_entity(out, text + i + 1, (size_t)(end - text) - i - 1))
            return false;
        i = (size_t)(end - text) + 1;
    }
    return true;
}

static void copy_name(char name[XML_NAME_BYTES], const char *text, size_t length) {
    length = length < XML_NAME_BYTES ? length : XML_NAME_BYTES - 1;
    memcpy(name, text, length);
    name[length] = 0;
}

static enum xml_event close_element(struct xml *xml) {
    xml->depth--;
    copy_name(xml->name, xml->open[xml->depth], strlen(xml->open[xml->depth]));
    return XML_CLOSE;
}

// Parses the tag at '<', which is neither a comment nor a declaration.
static enum xml_event read_tag(struct xml *xml) {
    const char *begin = xml->data + xml->at, *end = memchr(begin, '>', xml->length - xml->at);
    if (!end)
        return XML_BROKEN;
    xml->at = (size_t)(end - xml->data) + 1;
    bool is_end = begin[1] == '/', is_empty = end[-1] == '/' && end - begin > 1;
    const char *name = begin + 1 + is_end;
    size_t length = 0;
    while (name + length < end && !strchr(" \t\r\n/", name[length]))
        length++;
    char cut[XML_NAME_BYTES];
    copy_name(cut, name, length);
    if (length == 0)
        return XML_BROKEN;
    if (is_end)
        return xml->depth > 0 && strcmp(cut, xml->open[xml->depth - 1]) == 0 ? close_element(xml) : XML_BROKEN;
    if (xml->depth == XML_MOST_DEPTH)
        return XML_BROKEN;
    copy_name(xml->open[xml->depth++], cut, strlen(cut));
    copy_name(xml->name, cut, strlen(cut));
    xml->closes_next = is_empty;
    buffer_clear(&xml->text);
    return XML_OPEN;
}

enum xml_event xml_next(struct xml *xml) {
    if (xml->closes_next) {
        xml->closes_next = false;
        return close_element(xml);
    }
    buffer_clear(&xml->text);
    while (xml->at < xml->length) {
        const char *tag = memchr(xml->data + xml->at, '<', xml->length - xml->at);
        size_t text = tag ? (size_t)(tag - xml->data) - xml->at : xml->length - xml->at;
        if (!append_text(&xml->text, xml->data + xml->at, text))
            return XML_BROKEN;
        xml->at += text;
        if (!tag)
            break;
        if (begins(xml, "<?") ? pass(xml, "?>") : begins(xml, "<!--") ? pass(xml, "-->") : false)
            continue;
        return begins(xml, "<?") || begins(xml, "<!") ? XML_BROKEN : read_tag(xml);
    }
    return xml->depth == 0 ? XML_END : XML_BROKEN;
}

void xml_free(struct xml *xml) {
    buffer_free(&xml->text);
}

bool xml_find(const char *data, size_t length, const char *name, struct buffer *text) {
    OWNED_BY(xml_free) struct xml xml = {.data = data, .length = length};
    enum xml_event event;
    bool found = false;
    while (!found && (event = xml_next(&xml)) != XML_END && event != XML_BROKEN) {
        found = event == XML_CLOSE && strcmp(xml.name, name) == 0;
        if (found) {
            buffer_clear(text);
            buffer_append(text, buffer_string(&xml.text), xml.text.length);
        }
    }
    return found;
}
