# Makes an image of the service, as it was and repaired, without any registry: two static programs are all
# that is in it. Says what is missing.
set -e
command -v cc >/dev/null || { echo 'missing: a C compiler (apt-get install gcc libc6-dev)'; exit 1; }
engine=docker
docker version >/dev/null 2>&1 || engine=podman
"$engine" version >/dev/null 2>&1 || { echo 'missing: docker or podman, with its daemon running'; exit 1; }
mkdir -p build/image
cc -static -D_GNU_SOURCE -O1 -fno-inline -g -pthread -o build/image/app app.c
cc -static -D_GNU_SOURCE -O1 -fno-inline -g -pthread -DFIXED -o build/image/app-fixed app.c
tar -C build/image -cf build/image.tar app app-fixed
# The one before would stay without a name.
"$engine" image rm -f provoke-model-api:1 >/dev/null 2>&1 || true
"$engine" import build/image.tar provoke-model-api:1
