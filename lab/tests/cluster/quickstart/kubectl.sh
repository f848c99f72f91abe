#!/bin/sh
# kubectl, in front of an API server that speaks no protobuf, on a node without a container runtime.
kubectl() {
    @KUBECTL@ --cache-dir "$HOME/cache" "$@"
}

# A plugin's name comes first. kubectl finds it on PATH.
[ "$1" = epguard ] && exec @KUBECTL@ "$@"

executed=no
for word; do
    case $executed$word in
    nocreate)
        # What it makes itself it sends as protobuf; what it reads from a file it sends as JSON.
        kubectl "$@" --dry-run=client -o json | kubectl create -f -
        exit
        ;;
    noexec) executed=yes ;;
    yes--)
        # The agent's pod is in the node's network namespace, and so is this shell.
        while [ "$1" != -- ]; do shift; done
        shift
        exec "$@"
        ;;
    esac
done
kubectl "$@"
