// Decides by chance whether a run fails. No schedule of threads changes the decision.
#include <stdlib.h>
#include <sys/random.h>

static int fails_in_percent(unsigned percent) {
    unsigned char drawn[2];
    if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn) abort();
    return (drawn[0] << 8 | drawn[1]) % 100 < percent;
}
