/* SPDX-License-Identifier: Apache-2.0 */
/* What the two scenes of the attack with failure rates share. */
#ifndef TEST_ATTACK_RATES_H
#define TEST_ATTACK_RATES_H

#include <kv/cuda.h>

#include "swcuda/control.h"

extern struct kcu cu;
extern const struct kvmm_swcuda_control *ctl;

/* Any thread has its own. */
struct dice {
	u64 state;
};

u32 below(struct dice *dice, u32 n);

/* A sentence about wrong content or a broken promise, with the plan that it came about by. */
void wrong(const char *fmt, ...) __printf(1, 2);

void fill_bytes(u8 *buf, u32 bytes, u32 content);
bool has_bytes(const u8 *buf, u32 bytes, u32 content);

/* Each takes a driver that was reset, plans failures by attack(), and leaves nothing. */
void copy_scene(struct dice *dice);
void pool_scene(struct dice *dice);

void attack(void);		/* from here on calls fail */
void relent(void);		/* from here on none does */

extern u64 nr_compared;		/* atomic */

#endif /* TEST_ATTACK_RATES_H */
