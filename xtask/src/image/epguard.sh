#!/bin/sh
# What the lab takes for `epguard`: the agent in a container of the image, in the network namespace that this is started
# in; every other verb inside of that container, as `kubectl exec` does it.
set -eu
runc="runc --root @BUNDLE@/state"
if [ "$1" = agent ]; then
    arguments=$(printf ', "%s"' "$@")
    sed -e 's|@ROOTFS@|@ROOT@|' -e "s|@ARGUMENTS@|$arguments|" '@BUNDLE@/template.json' >'@BUNDLE@/config.json'
    exec $runc run --bundle '@BUNDLE@' epguard-demo
fi
exec $runc exec --cap CAP_BPF --cap CAP_NET_ADMIN --cap CAP_PERFMON epguard-demo /usr/local/bin/epguard "$@"
