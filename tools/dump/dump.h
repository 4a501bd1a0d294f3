/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_DUMP_H
#define TOOLS_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include <kvmm/kvmm.h>

/* What was seen. */
struct dump_sum {
	uint64_t nr_records;
	uint64_t nr_damaged;
	uint64_t nr_unfinished;	/* the same, where it is no wonder */
	uint64_t bytes;		/* payload */
	uint32_t nr_sealed;
	uint32_t nr_open;
	uint32_t nr_empty;
	uint32_t nr_reused;	/* while they were looked at */
};

struct dump {
	const char *path;
	bool json;
	bool quiet;
	bool believe;		/* what headers and footers say */
	uint32_t kind;		/* of the segment at hand */
	struct kvmm_disk_view *view;
	struct kvmm_disk_view_info info;
	struct dump_sum sum;
};

/* 0, or what kvmm_disk_view_open() says. */
int dump_tier(struct dump *dump);

/* kvmm-dump record: likewise. */
int dump_record(int argc, char **argv);

/* kvmm-dump report: the rest of the command line; what the process says at its end. */
int dump_report(int argc, char **argv);

#endif /* TOOLS_DUMP_H */
