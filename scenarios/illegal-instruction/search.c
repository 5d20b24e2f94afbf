/* Builds an index of vectors and searches it, as a library for similarity search does.
 *
 * Loading it and building the index take nothing that a processor of 2011 lacks. The search was
 * compiled for AVX2, and nobody asks the processor first: that is the bug. So it dies late, and
 * only on some hosts.
 */

#include <stdio.h>
#include <stdlib.h>

#define COUNT 1000
#define SIZE 64

static int vectors[COUNT][SIZE];

static void build(void)
{
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < SIZE; k++)
            vectors[i][k] = rand() % 1000;
}

/* What is between two vectors: eight numbers at once. */
__attribute__((target("avx2"), noinline, optimize("O3")))
static int distance(const int *a, const int *b)
{
    int sum = 0;
    for (int k = 0; k < SIZE; k++)
        sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sum;
}

static int search(const int *wanted)
{
    int nearest = 0;
    for (int i = 1; i < COUNT; i++)
        if (distance(wanted, vectors[i]) < distance(wanted, vectors[nearest]))
            nearest = i;
    return nearest;
}

int main(void)
{
    printf("loaded\n");
    build();
    printf("added %d vectors\n", COUNT);
    fflush(stdout);
    printf("nearest: %d\n", search(vectors[42]));
}
