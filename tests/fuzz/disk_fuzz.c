// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the file of a disk store. The first byte says how: as they are; as changes to a store that
 * is good; or as changes to pages of it, with their checksums put right, which then stand anywhere.
 *
 * Opening never crashes, reads a bounded number of bytes and takes bounded memory; whatever it finds, all
 * that is then listed can be read or is refused, the store is consistent and can be written to, and can
 * be looked at without opening.
 */
#include <kv/mem.h>

#include "tests/fuzz/require.h"
#include "tests/disk/util.h"
#include "tests/support/disk_index.h"
#include "tests/support/sim_disk.h"

#define SEGMENT		(64u << 10)
#define NR_SEGMENTS	3u
#define MAX_BYTES	(NR_SEGMENTS * SEGMENT + KV_DISK_FRONT_BYTES)
#define MAX_MEMORY	(4u << 20)

static struct sim_disk sim;
static u8 *good;		/* a store with records in each kind of segment */
static u64 good_bytes;

static struct kvmm_disk_attr attr_of(void)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = "/store", .max_bytes = MAX_BYTES,
				       .segment_bytes = SEGMENT };

	return attr;
}

static void make_good(void)
{
	struct kvmm_disk_attr attr = attr_of();
	struct kvmm_disk *disk;

	if (good)
		return;
	sim_disk_init(&sim, 2 * MAX_BYTES);
	sim_disk_install(&sim);
	require(!kvmm_disk_open(&attr, &disk));
	for (u32 i = 0; i < 12; i++)
		require(!disk_test_write(disk, i, 0));
	kvmm_disk_close(disk);
	good = malloc(MAX_BYTES);
	good_bytes = sim.bytes;
	memcpy(good, sim.content, MAX_BYTES);
}

/* @nr bytes at places that the input names: two bytes for the place, one for the value. */
static void change(const uint8_t *data, size_t bytes)
{
	memcpy(sim.content, good, MAX_BYTES);
	sim.bytes = good_bytes;
	for (; bytes >= 4; data += 4, bytes -= 4) {
		u32 at = (data[0] | data[1] << 8 | (u32)data[2] << 16) % MAX_BYTES;

		/* Most of the pages' first bytes: that is where structures are. */
		if (data[2] & 0x80)
			at = at / KV_DISK_PAGE * KV_DISK_PAGE + at % 256;
		sim.content[at] ^= data[3];
	}
}

/* The checksum of whatever the page is. */
static void seal_again(u8 *page)
{
	struct kv_disk_record *record = (void *)page;
	u64 magic;

	memcpy(&magic, page, sizeof(magic));
	if (record->magic == KV_DISK_RECORD_MAGIC)
		kv_disk_seal(record);
	else if (magic == KV_DISK_SUPER_MAGIC)
		kv_disk_seal((struct kv_disk_super *)(void *)page);
	else if (magic == KV_DISK_HEAD_MAGIC)
		kv_disk_seal((struct kv_disk_head *)(void *)page);
	else if (magic == KV_DISK_FOOTER_MAGIC)
		kv_disk_seal((struct kv_disk_footer *)(void *)page);
}

/*
 * By four bytes: a page of the good store goes to any place, has one byte changed, and its checksum put
 * right. So all that is behind the checksums is reached as well.
 */
static void lay_pages(const uint8_t *data, size_t bytes)
{
	u32 nr_pages = MAX_BYTES / KV_DISK_PAGE;

	memcpy(sim.content, good, MAX_BYTES);
	sim.bytes = good_bytes;
	for (; bytes >= 4; data += 4, bytes -= 4) {
		u8 *page = sim.content + data[0] % nr_pages * KV_DISK_PAGE;

		memcpy(page, good + data[1] % nr_pages * KV_DISK_PAGE, KV_DISK_PAGE);
		page[data[2]] ^= data[3];
		seal_again(page);
	}
}

static void as_it_is(const uint8_t *data, size_t bytes)
{
	memset(sim.content, 0, MAX_BYTES);
	sim.bytes = min(bytes, (size_t)MAX_BYTES);
	memcpy(sim.content, data, sim.bytes);
}

static void read_entry(struct kvmm_disk *disk, const struct kvmm_disk_entry *entry)
{
	struct kvmm_disk_get_args get = { .name = entry->name, .data = malloc(entry->bytes),
					  .room = entry->bytes };
	s32 status;

	require(kvmm_disk_get(disk, &get, 1, &status) >= 0);
	require(status == (s32)entry->bytes || status == -EBADMSG || status == -ENOENT ||
		status == -EIO);
	free(get.data);
}

/* From outside; what @disk would find there, if it is open, is read as well. */
static void look(struct kvmm_disk *disk)
{
	struct kvmm_disk_segment segment;
	struct kvmm_disk_view_info info = { .size = sizeof(info) };
	struct kvmm_disk_entry entry, at;
	struct kvmm_disk_view *view;

	if (kvmm_disk_view_open("/store", &info, &view))
		return;
	for (u32 i = 0; i < min(info.nr_segments, 8u); i++) {
		if (kvmm_disk_view_segment(view, i, &segment))
			continue;
		while (kvmm_disk_view_next(view, 1, &entry) == 1) {
			require(entry.bytes && entry.name.key_bytes >= KVMM_DISK_MIN_KEY);
			if (disk && disk_index_place(disk, &entry.name, &at) &&
			    at.segment == entry.segment && at.offset == entry.offset &&
			    at.seq == entry.seq)
				read_entry(disk, &entry);
		}
	}
	kvmm_disk_view_close(view);
}

static void use(struct kvmm_disk *disk)
{
	require(!kv_disk_check(disk));
	look(disk);
	for (u32 i = 0; i < 12; i++)
		require(disk_test_read(disk, i) <= 0);
	for (u32 i = 100; i < 110; i++)
		require(!disk_test_write(disk, i, 0));
	require(!disk_test_read(disk, 109));
	require(!kv_disk_check(disk));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static void (*const ways[])(const uint8_t *data, size_t bytes) = {
		change, lay_pages, as_it_is,
	};
	struct kvmm_disk_attr attr = attr_of();
	struct kvmm_disk *disk;

	make_good();
	if (!bytes)
		return 0;
	ways[data[0] % ARRAY_SIZE(ways)](data + 1, bytes - 1);
	sim.exists = true;
	sim.nr_locks = 0;
	sim.nr_read_bytes = 0;
	look(NULL);
	sim.nr_read_bytes = 0;
	if (kvmm_disk_open(&attr, &disk))
		return 0;
	require(sim.nr_read_bytes <= 3 * sim.max_bytes);
	require(kv_mem_bytes() <= MAX_MEMORY);
	if (disk_test_stat(disk).segment_bytes == SEGMENT)
		use(disk);
	kvmm_disk_close(disk);
	require(!kv_mem_bytes());
	return 0;
}
