/* Crashes in about 7 of 100 runs: sum() expects a second node, which is sometimes missing.
 * The picture in README.md shows what provoke says about it. */
#include <stdio.h>
#include <stdlib.h>

struct node { long name, size, used; struct node *next; };

static long sum(struct node *node) {
    struct node *next = node->next;
    return node->used + next->used + (long)next->next;
}

int main(void) {
    const char *seed = getenv("PROVOKE_SEED"); /* provoke sets another one for each trial */
    struct node second = {2, 30, 20, NULL}, first = {1, 30, 10, &second};
    if (seed && strtoull(seed, NULL, 10) % 100 < 7)
        first.next = NULL;
    printf("%ld\n", sum(&first));
    return 0;
}
