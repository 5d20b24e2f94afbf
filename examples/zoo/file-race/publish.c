// Two processes publish a report through the same temporary file: the second rename fails if the first has moved it.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int publish(const char *text) {
    FILE *file = fopen("report.tmp", "w");
    if (!file) return 1;
    fputs(text, file);
    fclose(file);
    if (!rename("report.tmp", "report")) return 0;
    perror("rename");
    return 1;
}
int main(int count, char **arguments) {
    if (count != 2 || chdir(arguments[1])) return 2;
    pid_t child = fork();
    if (child == 0) {
        usleep(2000);
        _exit(publish("of the child\n"));
    }
    int own = publish("of the parent\n"), status = 0;
    waitpid(child, &status, 0);
    return own || status;
}
