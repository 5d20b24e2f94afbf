/* A till: adds up the orders in a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct price { const char *item; int cents; };

static const struct price list[] = {
#include "prices.h"
};

enum { SLOTS = 8 };
static struct price cache[SLOTS];

/* The last prices that were asked for; which one makes way for a new one is drawn. */
static struct price *look_up(const char *item) {
    for (int slot = 0; slot < SLOTS; slot++)
        if (cache[slot].item && strcmp(cache[slot].item, item) == 0)
            return &cache[slot];
    struct price *free_slot = &cache[random() % SLOTS];
    free_slot->item = NULL;
    for (size_t known = 0; known < sizeof list / sizeof *list; known++)
        if (strcmp(list[known].item, item) == 0)
            *free_slot = list[known];
    return free_slot;
}
//coupons
static int total(const char *item, int count) {
    struct price *price = look_up(item);
    return price->item ? price->cents * count : 0;
}

int main(int words, char **word) {
    FILE *orders = words > 1 ? fopen(word[1], "r") : stdin;
    char line[256], item[64], gift[64];
    int count, sum = 0;
    const char *seed = getenv("PROVOKE_SEED"); /* to draw the same again */
    srandom(seed ? strtoull(seed, NULL, 10) : time(NULL) ^ getpid());
    if (!orders) {
        perror(word[1]);
        return 2;
    }
    while (fgets(line, sizeof line, orders)) {
        if (sscanf(line, "order %63s %d coupon %63s", item, &count, gift) == 3)
            sum += /*with coupon*/ total(item, count);
        else if (sscanf(line, "order %63s %d", item, &count) == 2)
            sum += total(item, count);
    }
    printf("%d.%02d\n", sum / 100, sum % 100);
    return 0;
}
