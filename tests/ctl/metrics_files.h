/* SPDX-License-Identifier: Apache-2.0 */
/* Files that fail when they are told to, and count how often: those of disks that are opened in between. */
#ifndef KVMM_TESTS_METRICS_FILES_H
#define KVMM_TESTS_METRICS_FILES_H

#include <kv/types.h>

extern struct metrics_fault {
	bool fails_reads, lies, fails_writes, fails_syncs, is_full;
	u64 failed_reads, failed_writes, failed_syncs, refused_segments;
} fault;

void files_install(void);
void files_remove(void);

#endif
