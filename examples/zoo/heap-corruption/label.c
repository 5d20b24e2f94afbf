// A label with more than 23 letters is longer than its block. Without a sanitizer, a later call of malloc() or free() notices it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *label_of(const char *name) {
    char *label = malloc(24), *end = label;
    while ((*end++ = *name++));
    return label;
}
static void print_labels(const char *first, const char *second) {
    char *labels[] = {label_of(first), label_of(second)};
    printf("%s, %s\n", labels[0], labels[1]);
    free(labels[1]);
    free(labels[0]);
}
int main(void) {
    const char *seed = getenv("PROVOKE_SEED"); // another one in each trial
    char name[64] = {0};
    memset(name, 'x', 18 + (seed ? strtoull(seed, 0, 10) % 16 : 0));
    print_labels(name, "short");
}
