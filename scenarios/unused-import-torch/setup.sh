# Puts torch and one release of pyarrow into folders below ~/.cache, 1.2 GB; says what is missing.
set -e
[ "$(uname -m)" = x86_64 ] || { echo "missing: a 64-bit x86 machine; this is $(uname -m)"; exit 1; }
python=
for one in python3.7 "$HOME"/.pyenv/versions/3.7*/bin/python3.7; do
    if "$one" -c 'import venv, ensurepip' 2>/dev/null; then python=$one; break; fi
done
[ "$python" ] || { echo 'missing: CPython 3.7, for which these releases were made (pyenv install 3.7)'; exit 1; }
place=${XDG_CACHE_HOME:-$HOME/.cache}/provoke-scenarios
[ -x "$place/torch-1.0.1/bin/python" ] || "$python" -m venv "$place/torch-1.0.1"
"$place/torch-1.0.1/bin/pip" install --quiet torch==1.0.1 numpy==1.16.6 six==1.16.0
[ -d "$place/pyarrow-$1" ] ||
    "$place/torch-1.0.1/bin/pip" install --quiet --no-deps --target "$place/pyarrow-$1" "pyarrow==$1"
