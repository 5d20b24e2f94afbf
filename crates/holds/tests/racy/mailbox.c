// A sender process writes each message into a new file and removes the file later. A receiver process that finds the file
// empty opens it again, and fails if the file is gone by then.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char box[4096];
static void send_messages(void) {
    for (int i = 0; i < 20; i++) {
        int file = open(box, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (write(file, "message", 7) != 7) _exit(9);
        close(file);
        usleep(400);
        unlink(box);
    }
}
static int receive_messages(void) {
    char text[16];
    for (int i = 0; i < 20; i++) {
        int file = open(box, O_RDONLY);
        if (file >= 0) {
            ssize_t size = read(file, text, sizeof text);
            close(file);
            if (size == 0) {
                file = open(box, O_RDONLY);
                if (file < 0) return 3;
                close(file);
            }
        }
        usleep(500);
    }
    return 0;
}
int main(int argc, char **argv) {
    snprintf(box, sizeof box, "%s/box", argv[argc - 1]);
    if (strcmp(argv[1], "send") == 0) { send_messages(); return 0; }
    return receive_messages();
}
