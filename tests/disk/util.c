// SPDX-License-Identifier: Apache-2.0
/* Records by number: see util.h. */
#include "util.h"

static u64 mix(u64 x)
{
	x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 29)) * 0xd6e8feb86659fd93ull;
	return x ^ (x >> 32);
}

struct kvmm_disk_name disk_test_name(u32 n)
{
	struct kvmm_disk_name name = {
		.layout = { 1 + n % 2 }, .generation = n % 5, .tenant = n % 3, .group = n % 2,
		.key_bytes = KVMM_DISK_MIN_KEY + n % (KVMM_DISK_MAX_KEY - KVMM_DISK_MIN_KEY + 1),
	};

	memcpy(name.key, &n, sizeof(n));
	for (u32 i = sizeof(n); i < name.key_bytes; i++)
		name.key[i] = mix(n * 64 + i);
	return name;
}

u32 disk_test_bytes(u32 n)
{
	static const u32 bytes[] = { 4096, 1, 8192, 4097, 12000, 100, 12288, 4095 };

	return bytes[n % ARRAY_SIZE(bytes)];
}

void disk_test_fill(u32 n, void *data)
{
	u32 bytes = disk_test_bytes(n);
	u8 *to = data;

	for (u32 i = 0; i < bytes; i += sizeof(u64)) {
		u64 word = mix((u64)n << 32 | i);

		memcpy(to + i, &word, min((size_t)(bytes - i), sizeof(word)));
	}
}

bool disk_test_is_right(u32 n, const void *data, u32 bytes)
{
	u8 wanted[DISK_TEST_MAX_BYTES];

	if (bytes != disk_test_bytes(n))
		return false;
	disk_test_fill(n, wanted);
	return !memcmp(wanted, data, bytes);
}

struct kvmm_disk_put_args disk_test_put(u32 n, const void *data)
{
	struct kvmm_disk_put_args put = {
		.name = disk_test_name(n), .data = data, .bytes = disk_test_bytes(n),
		.position = n, .parent_bytes = n ? 8 : 0,
	};
	u32 before = n - 1;

	if (n)
		memcpy(put.parent, &before, sizeof(before));
	return put;
}

void *disk_test_buffers(u32 nr)
{
	return aligned_alloc(KV_DISK_PAGE, (size_t)nr * DISK_TEST_MAX_BYTES);
}

int disk_test_write(struct kvmm_disk *disk, u32 n, u32 flags)
{
	static __thread u8 data[DISK_TEST_MAX_BYTES] __attribute__((aligned(KVMM_DISK_PAGE)));
	struct kvmm_disk_put_args put = disk_test_put(n, data);
	s32 status = 0;
	int err;

	disk_test_fill(n, data);
	err = kvmm_disk_put(disk, &put, 1, flags, &status);
	return err < 0 ? err : status;
}

int disk_test_read(struct kvmm_disk *disk, u32 n)
{
	static __thread u8 data[DISK_TEST_MAX_BYTES] __attribute__((aligned(KVMM_DISK_PAGE)));
	/* Neither the memory nor the room is always what a disk likes. */
	struct kvmm_disk_get_args get = {
		.name = disk_test_name(n), .data = data + n % 3 / 2,
		.room = DISK_TEST_MAX_BYTES - n % 3 / 2,
	};
	s32 status = 0;
	int err = kvmm_disk_get(disk, &get, 1, &status);

	if (err < 0 || status < 0)
		return err < 0 ? err : status;
	return !disk_test_is_right(n, get.data, status);
}

int disk_test_forget(struct kvmm_disk *disk, u32 n, u32 flags)
{
	struct kvmm_disk_name name = disk_test_name(n);

	return kv_disk_forget(disk, &name, 1, flags);
}

bool disk_test_has(struct kvmm_disk *disk, u32 n)
{
	struct kvmm_disk_name name = disk_test_name(n);

	return kv_disk_lookup(disk, &name) == KV_DISK_HIT;
}

struct kvmm_disk_stat disk_test_stat(struct kvmm_disk *disk)
{
	struct kvmm_disk_stat stat = { .size = sizeof(stat) };

	kvmm_disk_get_stat(disk, &stat);
	return stat;
}
