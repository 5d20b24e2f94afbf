"""Reads a small file again and again, by way of C's stdio as a native library would.

At the end of the file it closes and opens it once more to see whether more has come. When the
second opening fails, the clean-up closes the first handle again: a double close, which the C
library's heap answers with SIGABRT.
"""

import ctypes
import sys
import time

libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
libc.fgets.restype = ctypes.c_char_p
libc.fgets.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]

path = sys.argv[1].encode()
line = ctypes.create_string_buffer(256)


def read_to_the_end(file):
    while libc.fgets(line, len(line), file):
        pass


seen = False
until = time.monotonic() + 1
while time.monotonic() < until:
    first = libc.fopen(path, b"r")
    if not first:
        time.sleep(0.001)
        continue
    seen = True
    read_to_the_end(first)
    libc.fclose(first)
    second = libc.fopen(path, b"r")
    if second:
        read_to_the_end(second)
        libc.fclose(second)
    else:
        print("NotFoundError: open file failed", file=sys.stderr, flush=True)
        libc.fclose(first)  # the bug: it is closed already
    time.sleep(0.01)

if not seen:
    sys.exit(125)  # there was nothing to read: this says nothing about the race
