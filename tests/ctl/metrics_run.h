/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of metrics_run: each has pools of its own, works on them, and says what it counted. */
#ifndef KVMM_TESTS_METRICS_RUN_H
#define KVMM_TESTS_METRICS_RUN_H

#include <kv/types.h>
#include <kvmm/kvmm.h>

typedef unsigned long long llu;

#define LABELS		"pool=\"%s\",device=\"host\""

void must(int ret, const char *what);
u32 any(u32 below);

/* Keys of a prompt, from block @from on. */
void name_keys(u32 prompt, u32 from, u32 nr, kvmm_key_t *keys);

/* A sample of a pool, and one of a tier alone; @more: ",label=\"value\"", or "". */
void expect(const char *name, const char *pool, const char *more, u64 number);
void expect_tier(const char *name, const char *tier, u64 number);

/* Device, host, disk in a folder that is there. */
struct kvmm_pool *chain_make(const char *dir);
void chain_use(void);
void chain_expect(void);
void chain_end(void);

/* Ranges that grow, pins, steps, moves, promises, requests that wait. */
struct kvmm_pool *busy_make(void);
void busy_use(void);
void busy_expect(void);

#endif
