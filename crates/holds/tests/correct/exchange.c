// Two processes replace and read a file correctly: the writer renames a complete file.
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static char folder[] = "/tmp/exchangeXXXXXX", name[64], fresh[64];
static void publish(int number) {
    int file = open(fresh, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert(file >= 0 && write(file, &number, sizeof number) == sizeof number && close(file) == 0);
    assert(rename(fresh, name) == 0);
}
int main(void) {
    assert(mkdtemp(folder));
    snprintf(name, sizeof name, "%s/now", folder);
    snprintf(fresh, sizeof fresh, "%s/next", folder);
    publish(0);
    pid_t child = fork();
    if (child == 0) { for (int i = 1; i < 9; i++) publish(i); _exit(0); }
    int last = 0;
    for (int i = 0; i < 9; i++) {
        int number, file = open(name, O_RDONLY);
        assert(file >= 0 && read(file, &number, sizeof number) == sizeof number && close(file) == 0);
        assert(number >= last);
        last = number;
    }
    int status;
    assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unlink(name);
    rmdir(folder);
}
