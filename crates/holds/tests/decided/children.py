"""Child processes decide by chance; the parent writes a report of the failing ones."""
import os
import sys
import tempfile

pids = []
for number in range(2):
    pid = os.fork()
    if pid == 0:
        os._exit(4 if os.urandom(1)[0] < 90 else 0)
    pids.append(pid)
failed = [pid for pid in pids if os.waitpid(pid, 0)[1] != 0]
if failed:
    with tempfile.TemporaryFile("w") as report:
        report.write("a child failed\n")
    sys.exit("a child failed")
