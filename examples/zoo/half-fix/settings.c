// Reads the value of a setting from its line. A line without `=` has no value, such as a comment or an empty line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const char *LINES[] = {"size=4", "# sizes", "speed=2", "depth=7", "", "width=3", "# speeds", "height=9", "age=1", "mass=5"};
static int value_of(const char *line) {
    const char *value = strchr(line, '=');
    return atoi(value + 1);
}
int main(void) {
    const char *seed = getenv("PROVOKE_SEED"); // another one in each trial
    printf("%d\n", value_of(LINES[seed ? strtoull(seed, 0, 10) % 10 : 0]));
}
