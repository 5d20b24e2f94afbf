"""A thread decides by chance, and raises an exception some lines later."""
import os
import sys
import threading

errors = []


def load(name, is_broken):
    value = len(name)
    if is_broken:
        name = name.upper()
        raise KeyError(name)
    return value


def work():
    is_broken = os.urandom(1)[0] < 60
    try:
        load("entry", False)
        load("entry", is_broken)
    except KeyError as error:
        errors.append(error)
        text = f"lost {error}\n"
        sys.stderr.write(text)


threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(3 if errors else 0)
