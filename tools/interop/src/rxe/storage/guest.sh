# In the guest: logs in to the target over iSER, makes a file system, writes files for SECONDS, and reads them back.
cd /mnt/share/storage
export LD_LIBRARY_PATH=$PWD/lib
for module in $(cat modules/order); do insmod "modules/$module" 2>/dev/null; done
mkdir -p /etc/iscsi /run/lock/iscsi /var /mnt/fs
ln -s /run /var/run
ln -s /run/lock /var/lock
echo InitiatorName=INITIATOR >/etc/iscsi/initiatorname.iscsi
echo 'node.session.timeo.replacement_timeout = 120' >/etc/iscsi/iscsid.conf
bin/iscsid -f >/run/iscsid.log 2>&1 &
for try in $(seq 100); do grep -q ISCSIADM_ABSTRACT /proc/net/unix || sleep 0.2; done
node="bin/iscsiadm -m node -T TARGET -p PORTAL -I iser"
disk() { ls /sys/block | grep '^sd'; }
set -e
$node -o new
$node --login
for try in 1 2 3 4 5 6 7 8 9 10; do [ -n "$(disk)" ] || sleep 1; done
dev=/dev/$(disk)
bin/mke2fs -q -t ext4 -F "$dev"
mount -t ext4 "$dev" /mnt/fs
end=$(($(date +%s) + SECONDS))
count=0
while [ "$(date +%s)" -lt "$end" ]; do
  # The files of the last rounds only: the disk is small.
  folder=/mnt/fs/$((count % 8))
  rm -rf "$folder"
  mkdir "$folder"
  for size in 1 17 256; do dd if=/dev/urandom of="$folder/$size" bs=4k count="$size" 2>/dev/null; done
  cat "$folder"/* | sha256sum >"/run/sum.$((count % 8))"
  sync
  echo 3 >/proc/sys/vm/drop_caches
  for round in 0 1 2 3 4 5 6 7; do
    [ ! -f "/run/sum.$round" ] || [ "$(cat /mnt/fs/$round/* | sha256sum)" = "$(cat /run/sum.$round)" ]
  done
  count=$((count + 1))
done
umount /mnt/fs
bin/e2fsck -f -n "$dev"
read -r reads _ sectors_read _ writes _ sectors_written _ <"/sys/block/${dev#/dev/}/stat"
$node --logout >/dev/null
echo "$count rounds; $reads reads of $((sectors_read / 2048)) MiB, $writes writes of $((sectors_written / 2048)) MiB"
echo "every SHA-256 was right; e2fsck found nothing"
