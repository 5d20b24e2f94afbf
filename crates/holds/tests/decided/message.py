"""Threads work, then the program fails by chance and writes why."""
import os
import sys
import threading


def work():
    return sum(range(1000))


threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if os.urandom(1)[0] < 102:
    os.write(2, b"it failed\n")
    sys.exit(1)
