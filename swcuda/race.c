// SPDX-License-Identifier: Apache-2.0
/*
 * The race checker: vector clocks.
 *
 * Each stream counts its operations; a clock says how much of every stream is known to have
 * happened. Clocks travel with the edges that order work: a stream's own queue, an event that is
 * recorded and waited for, the host that queues after it has seen something complete. Two accesses
 * of one memory, one of them a write, without such an edge between them are a race, whether or not
 * anything went wrong this time.
 *
 * The host is one timeline here: what one of its threads has seen counts for all.
 */
#include "shadow.h"

#define NR_TOLD		16

static struct {
	u64 first, second;		/* pairs that have been reported */
} told[NR_TOLD];
static u32 next_told;

static bool is_told(u64 first, u64 second)
{
	for (u32 i = 0; i < NR_TOLD; i++)
		if (told[i].first == first && told[i].second == second)
			return true;
	told[next_told].first = first;
	told[next_told].second = second;
	next_told = (next_told + 1) % NR_TOLD;
	return false;
}

static void name_access(char *text, size_t bytes, const struct sw_access *access, bool write)
{
	const char *verb = write ? "writes" : "reads";

	if (access->slot == SW_HOST_SLOT)
		snprintf(text, bytes, "%s by the host %s", access->what, verb);
	else
		snprintf(text, bytes, "%s #%llu on stream %u %s", access->what,
			 (unsigned long long)access->seq, access->stream, verb);
}

static void tell(const struct sw_access *first, bool first_writes, const struct sw_access *second,
		 bool second_writes, u64 place, u64 bytes)
{
	u64 key = first->seq ? first->seq : (u64)first->time << 32;
	char one[SW_TEXT_BYTES], two[SW_TEXT_BYTES];

	if (is_told(key, second->seq ? second->seq : (u64)second->time << 32))
		return;
	name_access(one, sizeof(one), first, first_writes);
	name_access(two, sizeof(two), second, second_writes);
	if (place >> 48)
		sw_report(SW_REPORT_RACE, "%s, %s: device %d + 0x%llx, %llu bytes", one, two,
			  (int)(place >> 48) - 1,
			  (unsigned long long)(place & ((1ull << 48) - 1)),
			  (unsigned long long)bytes);
	else
		sw_report(SW_REPORT_RACE, "%s, %s: host 0x%llx, %llu bytes", one, two,
			  (unsigned long long)place, (unsigned long long)bytes);
}

/* The parts of one operation are not ordered either: its own first accesses conflict. */
static bool is_ordered(const struct sw_access *before, const struct sw_look *look)
{
	if (before->seq && before->seq == look->access.seq)
		return false;
	return look->clock->t[before->slot] >= before->time;
}

void sw_race_check(const struct sw_cell *cell, const struct sw_look *look, u64 place)
{
	u64 bytes = cell->end - cell->start;

	if (cell->write.what && !is_ordered(&cell->write, look))
		tell(&cell->write, true, &look->access, look->write, place, bytes);
	if (!look->write)
		return;
	for (u32 i = 0; i < cell->nr_reads; i++)
		if (!is_ordered(&cell->read[i], look))
			tell(&cell->read[i], false, &look->access, true, place, bytes);
}

/* Reads that are ordered before a new one say nothing that the new one does not say. */
static u32 drop_older_reads(struct sw_cell *cell, const struct sw_look *look)
{
	u32 nr = 0;

	for (u32 i = 0; i < cell->nr_reads; i++)
		if (look->clock->t[cell->read[i].slot] < cell->read[i].time)
			cell->read[nr++] = cell->read[i];
	return nr;
}

void sw_race_note(struct sw_cell *cell, const struct sw_look *look)
{
	if (look->write) {
		cell->write = look->access;
		cell->nr_reads = 0;
		return;
	}
	cell->nr_reads = drop_older_reads(cell, look);
	/* One too many is forgotten: a race with that read will be missed. */
	if (cell->nr_reads == SW_CELL_READS)
		cell->nr_reads--;
	cell->read[cell->nr_reads++] = look->access;
}

/* ---- What operations and the host do ---- */

static void look_at(void *arg, u64 place, u64 bytes)
{
	sw_shadow_look(place, bytes, arg);
}

static void touch_now(struct sw_op *op, u64 addr, u64 bytes, bool write)
{
	struct sw_stream *stream = op->stream;
	struct sw_look look = {
		.clock = &stream->clock,
		.write = write,
		.access = {
			.what = op->what, .seq = op->seq, .stream = stream->id,
			.slot = stream->slot, .time = stream->clock.t[stream->slot],
		},
	};

	sw_for_each_place(addr, bytes, look_at, &look);
}

static void report_illegal(const struct sw_op *op, u64 addr, u64 bytes, bool write)
{
	sw_report(SW_REPORT_ILLEGAL, "%s #%llu on stream %u may not %s %llu bytes at 0x%llx",
		  op->what, (unsigned long long)op->seq, op->stream->id,
		  write ? "write" : "read", (unsigned long long)bytes, (unsigned long long)addr);
}

bool sw_touch_as(struct sw_access_list *list, const struct sw_dev *dev, u64 addr, u64 bytes,
		 bool write)
{
	struct sw_op *op = list->op;

	if (!bytes)
		return false;
	if (list->find_bytes) {
		list->found |= addr < list->find_addr + list->find_bytes &&
			       list->find_addr < addr + bytes;
		return op->begun && sw_may_touch(dev, addr, bytes, write);
	}
	if (list->rc)
		return false;
	if (!sw_may_touch(dev, addr, bytes, write)) {
		report_illegal(op, addr, bytes, write);
		list->rc = KCU_E_ILLEGAL_ADDRESS;
		return false;
	}
	if (write)
		list->nr_written += bytes;
	if (!list->recheck)
		touch_now(op, addr, bytes, write);
	return true;
}

bool sw_touch(struct sw_access_list *list, kcu_deviceptr addr, u64 bytes, bool write)
{
	return sw_touch_as(list, list->op->stream->dev, addr, bytes, write);
}

void sw_race_host(u64 addr, u64 bytes, bool write, const char *what)
{
	struct sw_look look = {
		.clock = &sw.host,
		.write = write,
		.access = { .what = what, .slot = SW_HOST_SLOT, .time = sw.host.t[SW_HOST_SLOT] },
	};

	sw_for_each_place(addr, bytes, look_at, &look);
}

void sw_host_saw(const struct sw_clock *clock, u64 ns)
{
	sw_clock_join(&sw.host, clock);
	sw.count.host_ns = max(sw.count.host_ns, ns);
}

void sw_race_exit(void)
{
	sw_shadow_exit();
	memset(told, 0, sizeof(told));
}
