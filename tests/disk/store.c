// SPDX-License-Identifier: Apache-2.0
/*
 * For scripts: a store with so many records, which are those of util.h.
 *
 * usage: store DIR NR [wait]		wait: keep it open until the end of standard input
 */
#include "util.h"

int main(int argc, char **argv)
{
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;
	struct kvmm_disk *disk;
	u32 nr;
	int err;

	if (argc < 3)
		return 2;
	nr = strtoul(argv[2], NULL, 0);
	attr.path = argv[1];
	attr.max_bytes = (4 << 20) + KV_DISK_FRONT_BYTES;
	attr.segment_bytes = 64 << 10;
	err = kvmm_disk_open(&attr, &disk);
	for (u32 i = 0; !err && i < nr; i++) {
		err = disk_test_write(disk, i, 0);
		err = err == -EEXIST ? 0 : err;
	}
	while (!err && argc > 3 && getchar() != EOF)
		;
	if (!err)
		kvmm_disk_close(disk);
	return err != 0;
}
