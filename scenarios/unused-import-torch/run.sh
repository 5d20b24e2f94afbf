# Runs the program in this folder with one release of pyarrow.
place=${XDG_CACHE_HOME:-$HOME/.cache}/provoke-scenarios
PYTHONPATH=$place/pyarrow-$1 exec "$place/torch-1.0.1/bin/python" table.py
