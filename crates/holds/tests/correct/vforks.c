// vfork and exec, with pipes, while another thread uses files.
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static void *use_files(void *unused) {
    char byte;
    for (int i = 0; i < 6; i++) {
        int file = open("/dev/zero", O_RDONLY);
        assert(file >= 0 && read(file, &byte, 1) == 1 && close(file) == 0);
    }
    return unused;
}
int main(int argc, char **argv) {
    if (argc > 1) { use_files(0); return write(1, "done", 4) == 4 ? 0 : 8; }
    pthread_t thread;
    pthread_create(&thread, 0, use_files, 0);
    for (int i = 0; i < 3; i++) {
        int ends[2];
        assert(pipe2(ends, O_CLOEXEC) == 0);
        pid_t child = vfork();
        if (child == 0) { dup2(ends[1], 1); execl(argv[0], argv[0], "again", (char *)0); _exit(7); }
        close(ends[1]);
        char text[8];
        ssize_t size = 0, got;
        while ((got = read(ends[0], text + size, sizeof text - (size_t)size)) > 0) size += got;
        assert(size == 4);
        close(ends[0]);
        int status;
        assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    pthread_join(thread, 0);
}
