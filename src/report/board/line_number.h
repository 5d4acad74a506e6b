// Numbers out of bulk JSON. strtod rounds correctly and takes a tenth of a microsecond; a line of metrics has twenty
// numbers, and a board reads 100 million lines.
#ifndef REPORT_BOARD_LINE_NUMBER_H
#define REPORT_BOARD_LINE_NUMBER_H

// Reads the JSON number at `text`, which is followed by a character other than a digit and by eight readable bytes, to
// within two units in the last place. Returns the text after it, or NULL if it is not a finite JSON number.
const char *line_number_read(const char *text, double *value);

#endif
