# Makes an image of this machine's Python without any registry: the interpreter, its library, and the shared
# libraries of both, each at its place; and one upon it for each release that is named. Says what is missing.
set -e
command -v python3 >/dev/null || { echo 'missing: Python 3 (apt-get install python3)'; exit 1; }
engine=docker
docker version >/dev/null 2>&1 || engine=podman
"$engine" version >/dev/null 2>&1 || { echo 'missing: docker or podman, with its daemon running'; exit 1; }
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p build
rm -rf build/image
mkdir -p build/image/usr/local/bin
ln -s "$python" build/image/usr/local/bin/python3
tar -C build/image -cf build/image.tar usr/local/bin/python3
{
    echo "$python"
    ldd "$python" "$library"/lib-dynload/*.so | grep -o '/[^ :]*\.so[^ :]*'
    find "$library" -type d \( -name test -o -name 'config-*' -o -name '*-packages' -o -name idlelib -o -name ensurepip \) \
        -prune -o -type f -print
} | sort -u | tar -rhf build/image.tar --files-from=- --absolute-names --transform='s,^/,,'
# The one before would stay without a name.
"$engine" image rm -f provoke-unused-import:1 >/dev/null 2>&1 || true
"$engine" import build/image.tar provoke-unused-import:1
for release; do
    printf 'FROM provoke-unused-import:1\nENV TORCH_RELEASE=%s\n' "$release" |
        "$engine" build --quiet --tag "provoke-unused-import:$release" - >/dev/null
done
