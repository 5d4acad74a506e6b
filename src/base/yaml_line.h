// Shared by the readers of our two kinds of YAML, flag files and pods.
#ifndef BASE_YAML_LINE_H
#define BASE_YAML_LINE_H

// Cuts a carriage return, a comment and the spaces before it off the end of a line. # opens a comment at the start or
// after a space, outside quotes. A quote opens only after one of `before_values`, where a value may begin: in don't it
// is part of a word.
void yaml_line_trim(char *line, const char *before_values);

#endif
