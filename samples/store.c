// SPDX-License-Identifier: Apache-2.0
/*
 * A store of records in a folder, without a pool: written, closed, and read again after a restart.
 *
 *	samples/store [FOLDER]
 */
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <string.h>

#define BYTES	4096

static struct kvmm_disk_name name_of(uint64_t number)
{
	struct kvmm_disk_name name = { .generation = 1, .key_bytes = sizeof(number) };

	memcpy(name.key, &number, sizeof(number));
	return name;
}

static int write_them(struct kvmm_disk *disk)
{
	static char content[2][BYTES] = { "the first", "the second" };
	struct kvmm_disk_put_args puts[2] = {
		{ .name = name_of(1), .data = content[0], .bytes = BYTES },
		{ .name = name_of(2), .data = content[1], .bytes = BYTES },
	};
	int nr = kvmm_disk_put(disk, puts, 2, 0, NULL);

	printf("%d records written\n", nr);
	return nr < 0 ? nr : kvmm_disk_sync(disk);
}

static int read_one(struct kvmm_disk *disk)
{
	static char content[BYTES];
	struct kvmm_disk_get_args get = { .name = name_of(2), .data = content, .room = BYTES };
	struct kvmm_disk_stat stat = { .size = sizeof(stat) };
	int32_t status;
	int nr = kvmm_disk_get(disk, &get, 1, &status);

	printf("%s\n", status < 0 ? kvmm_strerror(status) : content);
	if (!kvmm_disk_get_stat(disk, &stat))
		printf("%llu records found, %llu bytes read\n", (unsigned long long)stat.nr_found,
		       (unsigned long long)stat.got_bytes);
	return nr < 0 ? nr : status < 0 ? status : 0;
}

int main(int argc, char **argv)
{
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;
	struct kvmm_disk *disk = NULL;
	int err;

	attr.path = argc > 1 ? argv[1] : "store.kvmm";
	attr.max_bytes = 64 << 20;
	err = kvmm_disk_open(&attr, &disk);
	if (!err)
		err = write_them(disk);
	kvmm_disk_close(disk);
	disk = NULL;
	if (!err)
		err = kvmm_disk_open(&attr, &disk);
	if (!err)
		err = read_one(disk);
	if (err)
		fprintf(stderr, "store: %s\n", kvmm_strerror(err));
	kvmm_disk_close(disk);
	return err != 0;
}
