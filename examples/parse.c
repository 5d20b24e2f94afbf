// Reads a field of a structure through a null pointer, with the seeds of one in ten trials.
#include <stdlib.h>
struct field { long line, column, value; };
static long value_of(struct field *field) { return field->value; }
static long row(struct field *field) { return value_of(field) + 1; }
int main(void) {
    struct field field = {1, 2, 3};
    return row(strtoull(getenv("PROVOKE_SEED"), 0, 10) % 10 ? &field : 0) != 4;
}
