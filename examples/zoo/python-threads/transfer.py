"""Two threads transfer money and lock both accounts. In opposite directions, each waits for the lock of the other."""
import os
import threading
import time

locks = {"alice": threading.Lock(), "bob": threading.Lock()}


def transfer(source, target):
    with locks[source]:
        time.sleep(0.2)  # asks the bank
        with locks[target]:
            pass


is_opposite = int(os.environ.get("PROVOKE_SEED", 0)) % 3 == 0  # another one in each trial
transfers = [("alice", "bob"), ("bob", "alice") if is_opposite else ("alice", "bob")]
threads = [threading.Thread(target=transfer, args=accounts) for accounts in transfers]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
