// Numbers of curves as JSON. An answer has hundreds of thousands of them; the library's printing alone would take
// longer than a user should wait.
#ifndef REPORT_BOARD_NUMBER_TEXT_H
#define REPORT_BOARD_NUMBER_TEXT_H

#include "base/buffer.h"

enum { NUMBER_MOST_BYTES = 40 };

// Writes the number with up to `digits` (at most 15) significant digits, without zeros at the end; null if it is not
// finite. Whole numbers below 10^15 keep all of their digits. Returns the end of the text, which has no NUL and at most
// NUMBER_MOST_BYTES.
char *number_write(char *text, double value, int digits);
// Appends it to a buffer.
void number_append(struct buffer *out, double value, int digits);

#endif
