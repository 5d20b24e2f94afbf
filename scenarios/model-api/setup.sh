# Compiles the service, as it was and repaired; says what is missing.
set -e
command -v cc >/dev/null || { echo 'missing: a C compiler (apt-get install gcc libc6-dev)'; exit 1; }
mkdir -p build
cc -D_GNU_SOURCE -O1 -fno-inline -g -pthread -o build/app app.c
cc -D_GNU_SOURCE -O1 -fno-inline -g -pthread -DFIXED -o build/app-fixed app.c
