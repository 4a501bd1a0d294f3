// SPDX-License-Identifier: Apache-2.0
/*
 * A disk tier, segment by segment: as a table for people, or as JSON, in which numbers of 64 bits and
 * names are strings of hexadecimal digits.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../json.h"
#include "../plain.h"
#include "../tool.h"
#include "dump.h"

static const char *const kind_names[] = { "empty", "open", "sealed" };

/* In a segment without a footer it may be being written, or have been when the power went. */
static bool is_unfinished(const struct dump *dump, int status)
{
	return status == -EBADMSG && dump->kind == KVMM_DISK_SEGMENT_OPEN;
}

static const char *status_name(const struct dump *dump, int status)
{
	if (dump->believe)
		return "unread";
	if (is_unfinished(dump, status))
		return "unfinished";
	return !status ? "good" : status == -EBADMSG ? "damaged" : "unreadable";
}

static void print_hex(const uint8_t *bytes, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		printf("%02x", bytes[i]);
}

/* ---- the store ---- */

static void print_head(const struct dump *dump)
{
	const struct kvmm_disk_view_info *info = &dump->info;

	printf(dump->json ? "{\"path\": " : "store    ");
	if (dump->json) {
		json_string(dump->path, stdout);
		printf(", \"uuid\": \"");
	} else {
		put_plain_word(dump->path, stdout);
		printf("\nuuid     ");
	}
	print_hex(info->uuid, sizeof(info->uuid));
	printf(dump->json ?
	       "\", \"version\": %u, \"written\": %llu, \"superblocks\": %u, \"segment_bytes\": %u, "
	       "\"nr_segments\": %u, \"file_bytes\": %llu, \"segments\": [" :
	       "\nversion  %u\nwritten  %llu times\nsupers   %u of 3 good\nsegments of %u bytes, %u at most"
	       "\nfile     %llu bytes\n",
	       info->version, (unsigned long long)info->epoch, info->nr_good_supers,
	       info->segment_bytes, info->nr_segments, (unsigned long long)info->file_bytes);
}

static void print_sum(const struct dump *dump)
{
	const struct dump_sum *sum = &dump->sum;

	printf(dump->json ?
	       "],\n\"sum\": {\"records\": %llu, \"bytes\": %llu, \"damaged\": %llu, "
	       "\"unfinished\": %llu, \"sealed\": %u, "
	       "\"open\": %u, \"empty\": %u, \"reused\": %u}}\n" :
	       "\n%llu records, %llu bytes, %llu damaged, %llu unfinished; segments: %u sealed, %u open, "
	       "%u empty, %u used again meanwhile\n",
	       (unsigned long long)sum->nr_records, (unsigned long long)sum->bytes,
	       (unsigned long long)sum->nr_damaged, (unsigned long long)sum->nr_unfinished,
	       sum->nr_sealed, sum->nr_open, sum->nr_empty, sum->nr_reused);
}

/* ---- a record ---- */

static void print_json(const struct dump *dump, const struct kvmm_disk_entry *entry, bool first)
{
	printf("%s\n  {\"offset\": %u, \"bytes\": %u, \"status\": \"%s\", \"tenant\": %u, \"group\": %u, "
	       "\"generation\": \"%llx\", \"position\": %llu, \"value\": %u, \"layout\": \"",
	       first ? "" : ",", entry->offset, entry->bytes, status_name(dump, entry->status),
	       entry->name.tenant, entry->name.group, (unsigned long long)entry->name.generation,
	       (unsigned long long)entry->position, entry->value);
	print_hex(entry->name.layout, sizeof(entry->name.layout));
	printf("\", \"key\": \"");
	print_hex(entry->name.key, entry->name.key_bytes);
	printf("\", \"parent\": \"");
	print_hex(entry->parent, entry->parent_bytes);
	printf("\"}");
}

static void print_line(const struct dump *dump, const struct kvmm_disk_entry *entry)
{
	printf("%10u %10u %-10s %6u %5u %8llu %3u  ", entry->offset, entry->bytes,
	       status_name(dump, entry->status), entry->name.tenant, entry->name.group,
	       (unsigned long long)entry->position, entry->value);
	print_hex(entry->name.layout, 4);
	printf("  ");
	print_hex(entry->name.key, entry->name.key_bytes);
	putchar('\n');
}

static void print_record(const struct dump *dump, const struct kvmm_disk_entry *entry, bool first)
{
	if (dump->json)
		print_json(dump, entry, first);
	else
		print_line(dump, entry);
}

/* ---- a segment ---- */

static void print_segment(const struct dump *dump, uint32_t number,
			  const struct kvmm_disk_segment *segment)
{
	if (dump->json) {
		printf("%s\n {\"segment\": %u, \"kind\": \"%s\", \"seq\": %llu, \"records\": [",
		       number ? "," : "", number, kind_names[segment->kind],
		       (unsigned long long)segment->seq);
		return;
	}
	if (segment->kind == KVMM_DISK_SEGMENT_EMPTY)
		return;
	printf("\nsegment %u: %s, use %llu\n", number, kind_names[segment->kind],
	       (unsigned long long)segment->seq);
	if (!dump->quiet)
		printf("%10s %10s %-10s %6s %5s %8s %3s  %-8s  %s\n", "offset", "bytes", "status",
		       "tenant", "group", "position", "val", "layout", "key");
}

static void count_segment(struct dump_sum *sum, uint32_t kind)
{
	sum->nr_sealed += kind == KVMM_DISK_SEGMENT_SEALED;
	sum->nr_open += kind == KVMM_DISK_SEGMENT_OPEN;
	sum->nr_empty += kind == KVMM_DISK_SEGMENT_EMPTY;
}

static int dump_segment(struct dump *dump, uint32_t number)
{
	struct kvmm_disk_segment segment;
	struct kvmm_disk_entry entry;
	bool first = true;
	int ret = kvmm_disk_view_segment(dump->view, number, &segment);

	if (ret)
		return ret;
	print_segment(dump, number, &segment);
	count_segment(&dump->sum, segment.kind);
	dump->kind = segment.kind;
	while ((ret = kvmm_disk_view_next(dump->view, !dump->believe, &entry)) > 0) {
		dump->sum.nr_records++;
		dump->sum.nr_damaged += entry.status && !is_unfinished(dump, entry.status);
		dump->sum.nr_unfinished += is_unfinished(dump, entry.status);
		dump->sum.bytes += entry.bytes;
		if (!dump->quiet)
			print_record(dump, &entry, first);
		first = false;
	}
	dump->sum.nr_reused += ret == -ESTALE;
	if (dump->json)
		printf("]}");
	return ret == -ESTALE ? 0 : ret;
}

int dump_tier(struct dump *dump)
{
	int err;

	dump->info.size = sizeof(dump->info);
	err = kvmm_disk_view_open(dump->path, &dump->info, &dump->view);
	if (err)
		return err;
	print_head(dump);
	for (uint32_t i = 0; !err && i < dump->info.nr_segments; i++)
		err = dump_segment(dump, i);
	print_sum(dump);
	kvmm_disk_view_close(dump->view);
	return err;
}
