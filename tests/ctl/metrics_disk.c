// SPDX-License-Identifier: Apache-2.0
/*
 * A disk whose files fail when they are told to, below a tier that nobody uses: records are put and read by
 * their names. What fails is counted below the disk; which records go, go along or are new, by looking up
 * all of them after each call; and which segments are used again, by looking at the file from outside.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "metrics_files.h"
#include "metrics_run.h"
#include "tests/support/disk_index.h"

#define TIER		"far"
#define BYTES		4096u
#define SEGMENT		KVMM_DISK_MIN_SEGMENT
#define NR_SEGMENTS	5u
#define NR_NAMES	120u

static struct kvmm_pool *pool;
static struct kvmm_tier *tier;
static struct kvmm_disk *disk;
static char folder[512];

/* ---- which records there are, and where ---- */

struct place {
	bool is_there;
	u32 segment, offset;
	u64 seq;
};

static struct place place[NR_NAMES];
static u64 seq_of[NR_SEGMENTS];

static struct {
	u64 put, got, missed, damaged, reclaimed, dropped, reinserted;
} count;

static struct kvmm_disk_name name_of(u32 n)
{
	struct kvmm_disk_name name = { .layout = { 5 }, .key_bytes = 8 };

	memcpy(name.key, &n, sizeof(n));
	return name;
}

static void look_up_all(struct place *now)
{
	for (u32 n = 0; n < NR_NAMES; n++) {
		struct kvmm_disk_name name = name_of(n);
		struct kvmm_disk_entry at = { .seq = 0 };
		bool is_there = disk_index_place(disk, &name, &at);

		now[n] = (struct place){ is_there, at.segment, at.offset, at.seq };
	}
}

/* One that is used again has another number. */
static void see_segments(void)
{
	struct kvmm_disk_view_info info = { .size = sizeof(info) };
	struct kvmm_disk_segment segment;
	struct kvmm_disk_view *view;

	must(kvmm_disk_view_open(folder, &info, &view), "view");
	for (u32 i = 0; i < info.nr_segments && i < NR_SEGMENTS; i++) {
		must(kvmm_disk_view_segment(view, i, &segment), "view_segment");
		if (segment.kind == KVMM_DISK_SEGMENT_EMPTY)
			continue;
		count.reclaimed += seq_of[i] && seq_of[i] != segment.seq;
		seq_of[i] = segment.seq;
	}
	kvmm_disk_view_close(view);
}

/* What has become of all; that @own has gone is what the call has said. */
static void see_records(u32 own)
{
	struct place now[NR_NAMES];

	look_up_all(now);
	for (u32 i = 0; i < NR_NAMES; i++) {
		bool is_elsewhere = now[i].segment != place[i].segment ||
				    now[i].offset != place[i].offset || now[i].seq != place[i].seq;

		if (!place[i].is_there)
			continue;
		count.dropped += !now[i].is_there && i != own;
		count.reinserted += now[i].is_there && is_elsewhere;
	}
	memcpy(place, now, sizeof(place));
	see_segments();
}

/* ---- operations ---- */

static bool is_worn;	/* it has said that it takes nothing any more */
static u8 buffer[BYTES] __attribute__((aligned(BYTES)));

static int put(u32 n)
{
	struct kvmm_disk_put_args put = { .name = name_of(n), .data = buffer, .bytes = BYTES };
	s32 status = 0;

	memset(buffer, (int)n, BYTES);
	must(kvmm_disk_put(disk, &put, 1, 0, &status), "put");
	count.put += !status;
	is_worn |= status == -EROFS;
	see_records(status ? NR_NAMES : n);
	return status;
}

/* There are more names than the disk has room for. */
static u32 missing_name(void)
{
	u32 n = any(NR_NAMES);

	while (place[n].is_there)
		n = (n + 1) % NR_NAMES;
	return n;
}

/* A good one at the end: it is not to give up by itself. */
static void put_some(void)
{
	fault.is_full = !any(3);
	put(missing_name());
	fault.fails_writes = !any(8);
	fault.fails_syncs = !fault.fails_writes && !any(6);
	put(missing_name());
	fault.fails_writes = fault.fails_syncs = fault.is_full = false;
	put(missing_name());
	put(any(NR_NAMES));
}

static void get(void)
{
	u32 n = any(NR_NAMES);
	struct kvmm_disk_get_args get = { .name = name_of(n), .data = buffer, .room = BYTES };
	s32 status = 0;

	fault.fails_reads = !any(12);
	fault.lies = !any(12);
	must(kvmm_disk_get(disk, &get, 1, &status), "get");
	fault.fails_reads = fault.lies = false;
	if (status == BYTES && buffer[7] != (u8)n)
		must(-1, "content");
	count.got += status == BYTES;
	count.missed += status == -ENOENT;
	count.damaged += status == -EBADMSG;
	see_records(n);
}

static void flush(void)
{
	fault.fails_syncs = any(2);
	if (kvmm_disk_sync(disk) != (fault.fails_syncs ? -EIO : 0))
		must(-1, "sync");
	fault.fails_syncs = false;
}

static void disk_use(void)
{
	u32 what = any(12);

	if (what < 5)
		put_some();
	else if (what < 11)
		get();
	else
		flush();
}

/* ---- what is expected ---- */

static u64 file_bytes(void)
{
	u64 bytes = 0;
	struct dirent *entry;
	struct stat stat;
	char path[1024];
	DIR *dir = opendir(folder);

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (!lstat(path, &stat) && S_ISREG(stat.st_mode))
			bytes += stat.st_size;
	}
	if (dir)
		closedir(dir);
	return bytes;
}

/* Each of them fails, until no more of it is tried. A segment may have been emptied for it. */
static void wear_out(void)
{
	fault.fails_writes = run_seed % 2;
	for (u32 i = 0; i < 1000 && !is_worn && fault.fails_writes; i++)
		put(missing_name());
	fault.fails_writes = false;
	put(missing_name());
}

/* The next one needs no other segment: its head would wait with it, and not be seen from outside. */
static void leave_room(void)
{
	u32 n;

	do {
		n = missing_name();
		must(put(n), "put");
	} while (place[n].offset > SEGMENT / 2);
}

static u32 nr_live(void)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_NAMES; i++)
		nr += place[i].is_there;
	return nr;
}

static void disk_expect(void)
{
	struct kvmm_disk_put_args last = { .data = buffer, .bytes = BYTES };

	wear_out();
	if (!is_worn)
		leave_room();
	last.name = name_of(missing_name());
	if (!is_worn)
		must(kv_disk_submit_put(disk, &last, 1, 0, 0), "submit_put");
	expect_tier("kvmm_disk_pending_records", TIER, !is_worn);
	expect_tier("kvmm_disk_file_bytes", TIER, file_bytes());
	expect_tier("kvmm_disk_read_only", TIER, is_worn);
	expect_tier("kvmm_disk_records", TIER, nr_live());
	expect_tier("kvmm_disk_record_bytes", TIER, nr_live() * BYTES);
	expect_tier("kvmm_disk_written_records_total", TIER, count.put);
	expect_tier("kvmm_disk_written_bytes_total", TIER, count.put * BYTES);
	expect_tier("kvmm_disk_read_records_total", TIER, count.got);
	expect_tier("kvmm_disk_read_bytes_total", TIER, count.got * BYTES);
	expect_tier("kvmm_disk_missed_records_total", TIER, count.missed);
	expect_tier("kvmm_disk_damaged_records_total", TIER, count.damaged);
	expect_tier("kvmm_disk_dropped_records_total", TIER, count.dropped);
	expect_tier("kvmm_disk_evict_age_seconds_count", TIER, count.dropped);
	expect_tier("kvmm_disk_reinserted_records_total", TIER, count.reinserted);
	expect_tier("kvmm_disk_read_errors_total", TIER, fault.failed_reads);
	expect_tier("kvmm_disk_write_errors_total", TIER, fault.failed_writes);
	expect_tier("kvmm_disk_sync_errors_total", TIER, fault.failed_syncs);
	expect_tier("kvmm_disk_full_segments_total", TIER, fault.refused_segments);
	if (!is_worn)
		expect_tier("kvmm_disk_reclaimed_segments_total", TIER, count.reclaimed);
}

static void open_disk(const char *dir)
{
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;

	snprintf(folder, sizeof(folder), "%s/far", dir);
	files_install();
	attr.path = folder;
	attr.io = KVMM_DISK_IO_POLL;
	attr.flags |= KVMM_DISK_BUFFERED;
	attr.segment_bytes = SEGMENT;
	attr.max_bytes = NR_SEGMENTS * SEGMENT + 2 * BYTES;
	must(kvmm_disk_open(&attr, &disk), "disk");
	files_remove();
}

static struct kvmm_pool *disk_make(const char *dir)
{
	struct kvmm_tier_disk_attr how = KVMM_TIER_DISK_ATTR_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = "far", .block_bytes = BYTES,
				       .nr_blocks = 4, .policy = "lru" };
	struct kvmm_tier_attr host = { .size = sizeof(host), .numa_node = -1, .name = TIER,
				       .block_bytes = BYTES, .capacity_blocks = 4 };

	open_disk(dir);
	host.disk = disk;
	host.disk_attr = &how;
	must(kvmm_tier_host_create(&host, &tier), "tier");
	attr.host = tier;
	must(kvmm_pool_create(&attr, &pool), "pool");
	return pool;
}

static void disk_end(void)
{
	kvmm_pool_destroy(pool);
	kvmm_tier_destroy(tier);
	kvmm_disk_close(disk);
}

const struct part metrics_disk = { disk_make, disk_use, disk_expect, disk_end };
