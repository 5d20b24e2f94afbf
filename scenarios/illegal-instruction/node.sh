# Runs a program on the processor of this node: those with an even number are too old for AVX2.
case $(uname -n) in
*[02468]) exec qemu-x86_64 -cpu IvyBridge "$@" ;;
*) exec qemu-x86_64 -cpu Haswell "$@" ;;
esac
