/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_STAT_H
#define TOOLS_STAT_H

#include <stdbool.h>
#include <stdio.h>

#include <kvmm/kvmm.h>

#define MAX_DEVICES	64u

/* A device that was looked for. */
struct seen {
	char name[32];			/* as asked for, maybe cut */
	int err;			/* 0: it is there */
	struct kvmm_device_info info;
};

struct devices {
	struct seen seen[MAX_DEVICES];
	unsigned int nr;
};

/* Without names: the host, and what the drivers have. How many were not there that had a name. */
unsigned int devices_find(struct devices *devices, const char *const *names, unsigned int nr);

void devices_print_table(const struct devices *devices, FILE *out);
void devices_print_json(const struct devices *devices, FILE *out);

/* Names of bits, by bit; ends with NULL. */
extern const char *const feature_names[];

extern const char *const dir_names[KVMM_NR_COPY_DIRS];
extern const char *const path_names[KVMM_NR_PATHS];

#endif /* TOOLS_STAT_H */
