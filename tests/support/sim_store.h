/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk store on a disk in memory, for tests that have one at a time:
 *
 *	begin_store(8, 64 << 10);	// of so many segments; ->store_attr may be changed ...
 *	open_store();			// ... before it is opened, and opened again
 *	end_store();			// it is consistent, within its limit, and gone
 */
#ifndef TESTS_SUPPORT_SIM_STORE_H
#define TESTS_SUPPORT_SIM_STORE_H

#include <kv/disk.h>

#include "tests/support/sim_disk.h"
#include "tests/support/test.h"

static struct sim_disk sim;
static struct kvmm_disk *disk;
static struct kvmm_disk_attr store_attr;
static u64 store_max_bytes;

static inline void begin_store(u32 nr_segments, u32 segment_bytes)
{
	store_attr = (struct kvmm_disk_attr)KVMM_DISK_ATTR_INIT;
	store_attr.path = "/store";
	store_attr.segment_bytes = segment_bytes;
	store_attr.max_bytes = (u64)nr_segments * segment_bytes + KV_DISK_FRONT_BYTES;
	store_max_bytes = store_attr.max_bytes;
	disk = NULL;
	sim_disk_init(&sim, 2 * store_attr.max_bytes);
	sim_disk_install(&sim);
}

/* Closed first if it is open. */
static inline void open_store(void)
{
	kvmm_disk_close(disk);
	disk = NULL;
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
}

static inline void end_store(void)
{
	if (disk)
		cr_expect_eq(kv_disk_check(disk), 0);
	kvmm_disk_close(disk);
	disk = NULL;
	cr_expect_leq(sim.most_bytes, store_max_bytes, "the file grew past its limit");
	sim_disk_remove();
	sim_disk_exit(&sim);
}

#endif /* TESTS_SUPPORT_SIM_STORE_H */
