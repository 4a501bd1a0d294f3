// SPDX-License-Identifier: Apache-2.0
/*
 * Disk tiers in numbers. They are looked at, not opened: nothing is written and nobody is locked out, so
 * an engine may be using them. Headers and footers are believed; kvmm-dump verifies.
 */
#include <stdlib.h>
#include <string.h>

#include "../json.h"
#include "../plain.h"
#include "../tool.h"
#include "stat.h"
#include "tiers.h"

#define U64(value)	((unsigned long long)(value))

/* ---- counting ---- */

static struct layout *layout_of(struct tier_seen *seen, const uint8_t id[16])
{
	struct layout *layout = seen->layout;

	for (uint32_t i = 0; i < seen->nr_layouts; i++, layout++)
		if (!memcmp(layout->id, id, sizeof(layout->id)))
			return layout;
	if (seen->nr_layouts == MAX_LAYOUTS)
		return &seen->other;
	seen->nr_layouts++;
	memcpy(layout->id, id, sizeof(layout->id));
	return layout;
}

static void count_record(struct tier_seen *seen, const struct kvmm_disk_entry *entry)
{
	struct layout *layout = layout_of(seen, entry->name.layout);
	uint64_t generation = entry->name.generation;

	layout->nr_records++;
	layout->bytes += entry->bytes;
	if (!seen->nr_records || generation < seen->first_generation)
		seen->first_generation = generation;
	if (!seen->nr_records || generation > seen->last_generation)
		seen->last_generation = generation;
	seen->nr_records++;
	seen->bytes += entry->bytes;
}

static void count_segment(struct tier_seen *seen, const struct kvmm_disk_segment *segment)
{
	if (segment->kind == KVMM_DISK_SEGMENT_EMPTY) {
		seen->nr_empty++;
		return;
	}
	if (!(seen->nr_sealed + seen->nr_open) || segment->seq < seen->first_use)
		seen->first_use = segment->seq;
	if (segment->seq > seen->last_use)
		seen->last_use = segment->seq;
	seen->nr_sealed += segment->kind == KVMM_DISK_SEGMENT_SEALED;
	seen->nr_open += segment->kind == KVMM_DISK_SEGMENT_OPEN;
}

static int look_at_segment(struct kvmm_disk_view *view, uint32_t number, struct tier_seen *seen)
{
	struct kvmm_disk_segment segment;
	struct kvmm_disk_entry entry;
	int ret = kvmm_disk_view_segment(view, number, &segment);

	if (ret)
		return ret;
	count_segment(seen, &segment);
	while ((ret = kvmm_disk_view_next(view, 0, &entry)) > 0)
		count_record(seen, &entry);
	seen->nr_reused += ret == -ESTALE;
	return ret == -ESTALE ? 0 : ret;
}

static int look_at(struct tier_seen *seen)
{
	struct kvmm_disk_view_info info = { .size = sizeof(info) };
	struct kvmm_disk_view *view;
	int err = kvmm_disk_view_open(seen->path, &info, &view);

	if (err)
		return err;
	seen->max_bytes = info.max_bytes;
	seen->file_bytes = info.file_bytes;
	seen->written = info.epoch;
	seen->segment_bytes = info.segment_bytes;
	for (uint32_t i = 0; i < info.nr_segments && !err; i++)
		err = look_at_segment(view, i, seen);
	kvmm_disk_view_close(view);
	return err;
}

/* ---- printing ---- */

static void print_id(const uint8_t id[16])
{
	for (unsigned int i = 0; i < 16; i++)
		printf("%02x", id[i]);
}

static void print_table(const struct tier_seen *seen, bool first)
{
	if (!first)
		putchar('\n');
	printf("tier         ");
	put_plain_word(seen->path, stdout);
	putchar('\n');
	if (seen->err) {
		printf("             %s\n", kvmm_strerror(seen->err));
		return;
	}
	printf("capacity     %llu bytes, %llu in the file, superblocks written %llu times\n"
	       "records      %llu, %llu bytes\n"
	       "segments     %u sealed, %u open, %u empty, of %u bytes; uses %llu to %llu\n",
	       U64(seen->max_bytes), U64(seen->file_bytes), U64(seen->written), U64(seen->nr_records),
	       U64(seen->bytes), seen->nr_sealed, seen->nr_open, seen->nr_empty, seen->segment_bytes,
	       U64(seen->first_use), U64(seen->last_use));
	if (seen->nr_records)
		printf("generations  %llu to %llu\n", U64(seen->first_generation),
		       U64(seen->last_generation));
	if (seen->nr_reused)
		printf("used again   %u segments while they were looked at\n", seen->nr_reused);
	for (uint32_t i = 0; i < seen->nr_layouts; i++) {
		printf("layout       ");
		print_id(seen->layout[i].id);
		printf("  %llu records, %llu bytes\n", U64(seen->layout[i].nr_records),
		       U64(seen->layout[i].bytes));
	}
	if (seen->other.nr_records)
		printf("layout       others  %llu records, %llu bytes\n", U64(seen->other.nr_records),
		       U64(seen->other.bytes));
}

static void print_layouts(const struct tier_seen *seen)
{
	printf(", \"other_records\": %llu, \"layouts\": [", U64(seen->other.nr_records));
	for (uint32_t i = 0; i < seen->nr_layouts; i++) {
		printf("%s{\"layout\": \"", i ? ", " : "");
		print_id(seen->layout[i].id);
		printf("\", \"records\": %llu, \"bytes\": %llu}", U64(seen->layout[i].nr_records),
		       U64(seen->layout[i].bytes));
	}
	putchar(']');
}

static void print_json(const struct tier_seen *seen, bool first)
{
	fputs(first ? "\n{\"path\": " : ",\n{\"path\": ", stdout);
	json_string(seen->path, stdout);
	printf(", \"found\": %s", seen->err ? "false, \"why\": " : "true");
	if (seen->err) {
		json_string(kvmm_strerror(seen->err), stdout);
		putchar('}');
		return;
	}
	printf(", \"max_bytes\": %llu, \"file_bytes\": %llu, \"written\": %llu, \"records\": %llu, "
	       "\"bytes\": %llu, \"segment_bytes\": %u, \"sealed\": %u, \"open\": %u, \"empty\": %u, "
	       "\"reused\": %u", U64(seen->max_bytes), U64(seen->file_bytes), U64(seen->written),
	       U64(seen->nr_records), U64(seen->bytes), seen->segment_bytes, seen->nr_sealed,
	       seen->nr_open, seen->nr_empty, seen->nr_reused);
	printf(", \"first_use\": %llu, \"last_use\": %llu, \"first_generation\": %llu, "
	       "\"last_generation\": %llu", U64(seen->first_use), U64(seen->last_use),
	       U64(seen->first_generation), U64(seen->last_generation));
	print_layouts(seen);
	putchar('}');
}

int stat_tiers(const char *const *paths, unsigned int nr, bool json)
{
	struct tier_seen seen;
	int code = EXIT_GOOD;

	if (json)
		fputs("{\"tiers\": [", stdout);
	for (unsigned int i = 0; i < nr; i++) {
		memset(&seen, 0, sizeof(seen));
		seen.path = paths[i];
		seen.err = look_at(&seen);
		if (seen.err)
			code = EXIT_WRONG;
		if (json)
			print_json(&seen, !i);
		else
			print_table(&seen, !i);
	}
	if (json)
		fputs("\n]}\n", stdout);
	return code;
}
