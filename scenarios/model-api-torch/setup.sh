# Puts one release of torch into a folder below ~/.cache, 1.2 GB; says what is missing.
set -e
[ "$(uname -m)" = x86_64 ] || { echo "missing: a 64-bit x86 machine; this is $(uname -m)"; exit 1; }
python=
for one in python3.7 "$HOME"/.pyenv/versions/3.7*/bin/python3.7; do
    if "$one" -c 'import venv, ensurepip' 2>/dev/null; then python=$one; break; fi
done
[ "$python" ] || { echo 'missing: CPython 3.7, for which these releases were made (pyenv install 3.7)'; exit 1; }
place=${XDG_CACHE_HOME:-$HOME/.cache}/provoke-scenarios/torch-$1
[ -x "$place/bin/python" ] || "$python" -m venv "$place"
"$place/bin/pip" install --quiet "torch==$1" numpy==1.16.6
