// A child process decides, and its parent reports the failure.
#include "decided.h"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(fails_in_percent(20) ? 3 : 0);
        int status = 0;
        waitpid(pid, &status, 0);
        failed |= status;
    }
    if (failed) {
        FILE *file = fopen("/dev/null", "w");
        fprintf(file, "a child failed\n");
        fclose(file);
        fputs("a child failed\n", stderr);
        return 1;
    }
    return 0;
}
