"""Rewrites a small file for ever, with random pauses.

It writes another file and renames that; but as on some shared file systems the rename first
deletes what is there, so for a moment there is no file.
"""

import os
import random
import sys
import time

path = sys.argv[1]
luck = random.Random(os.environ.get("PROVOKE_SEED"))
step = 0
while True:
    step += 1
    with open(path + ".tmp", "w") as file:
        file.write(f'model_checkpoint_path: "model.ckpt-{step}"\n')
    if os.path.exists(path):
        os.remove(path)
        time.sleep(luck.uniform(0, 0.0003))
    os.rename(path + ".tmp", path)
    time.sleep(luck.uniform(0, 0.02))
