#!/bin/busybox sh
# The first process: this machine's files below what is written here.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do insmod "/modules/$module.ko"; done < /order
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /host
mount -t tmpfs -o size=3g tmpfs /writes
mkdir /writes/upper /writes/work
mount -t overlay -o lowerdir=/host,upperdir=/writes/upper,workdir=/writes/work overlay /node
for place in proc sys dev; do mount --move "/$place" "/node/$place"; done
mount -t tmpfs tmpfs /node/run
mkdir -p /node/run/shared /node/dev/pts
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 shared /node/run/shared
exec chroot /node /bin/bash /run/shared/inside.sh
