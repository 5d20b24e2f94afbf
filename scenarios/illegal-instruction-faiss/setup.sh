# Puts one release of faiss into build/VERSION, beside one environment for all; says what is missing.
set -e
[ "$(uname -m)" = x86_64 ] || { echo "missing: a 64-bit x86 machine; this is $(uname -m)"; exit 1; }
command -v qemu-x86_64 >/dev/null || { echo 'missing: qemu-x86_64, to be other processors (apt-get install qemu-user)'; exit 1; }
python=
for one in python3.7 "$HOME"/.pyenv/versions/3.7*/bin/python3.7; do
    if "$one" -c 'import venv, ensurepip' 2>/dev/null; then python=$one; break; fi
done
[ "$python" ] || { echo 'missing: CPython 3.7, for which these releases were made (pyenv install 3.7)'; exit 1; }
# Nodes of a cluster share this directory: only one of them installs at a time.
exec 9<setup.sh
flock 9
[ -x build/python/bin/pip ] || "$python" -m venv build/python
build/python/bin/python -c 'import numpy' 2>/dev/null || build/python/bin/pip install --quiet numpy==1.21.6
[ -d "build/$1" ] || build/python/bin/pip install --quiet --no-deps --target "build/$1" "faiss-cpu==$1"
