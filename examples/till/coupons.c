
/* With a coupon the gift is free, if it is no dearer than the item. */
static int with_coupon(const char *item, int count, const char *gift) {
    struct price *price = look_up(item);
    struct price *free_gift = look_up(gift);
    int dearer = free_gift->cents > price->cents;
    printf("%zu letters of %s for free\n", strlen(price->item), dearer ? "nothing" : gift);
    return price->cents * count;
}
