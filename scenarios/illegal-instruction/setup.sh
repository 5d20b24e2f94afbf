# Compiles the program, and says what is missing.
set -e
[ "$(uname -m)" = x86_64 ] || { echo "missing: a 64-bit x86 machine; this is $(uname -m)"; exit 1; }
command -v cc >/dev/null || { echo 'missing: a C compiler (apt-get install gcc libc6-dev)'; exit 1; }
command -v qemu-x86_64 >/dev/null || { echo 'missing: qemu-x86_64, to be other processors (apt-get install qemu-user)'; exit 1; }
mkdir -p build
# Nodes of a cluster share this directory: only one of them compiles.
exec 9<setup.sh
flock 9
[ build/search -nt search.c ] || cc -O2 -g -o build/search search.c
