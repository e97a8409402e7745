#!/usr/bin/env bash
# Two network namespaces stand for two hosts, joined by a cable. Runs "$@" as four ranks, two on
# each, then prints how many bytes came through the cable. Needs a network namespace of its own.
set -euo pipefail

unshare --net sleep 300 &
other=$!
trap 'kill $other' EXIT
here=$(readlink /proc/self/ns/net)
until there=$(readlink /proc/$other/ns/net) && [ "$there" != "$here" ]; do :; done
on_other() { nsenter --target $other --net "$@"; }

ip link add name left type veth peer name right
ip link set right netns $other
ip address add 10.77.0.1/24 dev left
on_other ip address add 10.77.0.2/24 dev right
for device in left lo; do ip link set $device up; done
for device in right lo; do on_other ip link set $device up; done

export WORLD_SIZE=4 MASTER_ADDR=10.77.0.1 MASTER_PORT=29511
ranks=()
RANK=0 "$@" & ranks+=($!)
RANK=1 "$@" & ranks+=($!)
RANK=2 on_other "$@" & ranks+=($!)
RANK=3 on_other "$@" & ranks+=($!)
for rank in "${ranks[@]}"; do wait "$rank"; done
ip -json -statistics link show left
