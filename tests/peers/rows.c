// Prints the rows of a table as JSON Lines, for tests/peers/table_peers.py and delimited_peers.py; with 0 in place of
// the name of a file to print to, only how long reading took.
// usage: peers_rows THREADS OUT|0 TABLE COLUMN…
#include "base/clock.h"
#include "base/error.h"
#include "data/extract/reader.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int copy(FILE *out, struct reader *reader) {
    static char bytes[1 << 20];
    double begun = clock_seconds();
    int64_t got, all = 0;
    while ((got = reader_read(reader, bytes, sizeof bytes)) > 0) {
        all += got;
        if (out)
            fwrite(bytes, 1, (size_t)got, out);
    }
    if (!out)
        printf("%" PRId64 " bytes in %.4f s\n", all, clock_seconds() - begun);
    return got < 0 ? -1 : 0;
}

int main(int argc, char **argv) {
    if (argc < 5)
        return EXIT_CODE_USAGE;
    const struct table_columns columns = {(const char *const *)argv + 4, argc - 4};
    FILE *out = strcmp(argv[2], "0") == 0 ? NULL : fopen(argv[2], "w");
    struct reader *reader;
    int status = reader_open_columns(&reader, argv[3], (int)strtol(argv[1], NULL, 10), &columns);
    if (status == 0) {
        status = copy(out, reader);
        reader_close(reader);
    }
    if (status < 0)
        fprintf(stderr, "%s\n", error_message());
    return (out && fclose(out) != 0) || status < 0;
}
