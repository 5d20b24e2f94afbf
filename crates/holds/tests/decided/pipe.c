// A process sends a result through a pipe; the other one finds it wrong.
#include "decided.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int ends[2];
    if (pipe(ends) != 0) return 2;
    pid_t pid = fork();
    if (pid == 0) {
        const char *result = fails_in_percent(60) ? "wrong" : "right";
        if (write(ends[1], result, 5) != 5) _exit(2);
        _exit(0);
    }
    close(ends[1]);
    char result[6] = "";
    if (read(ends[0], result, 5) != 5) return 2;
    waitpid(pid, 0, 0);
    if (strcmp(result, "right") != 0) {
        char message[32];
        int length = snprintf(message, sizeof message, "got %s\n", result);
        if (write(2, message, (size_t)length) < 0) return 2;
        close(2);
        return 1;
    }
    return 0;
}
