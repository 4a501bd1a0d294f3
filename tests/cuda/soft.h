/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A soft device for a test, and pools of blocks whose content is known.
 *
 *	struct kv_dev *dev = soft_open("seed=3");	// options of the software driver
 *	...
 *	soft_close(dev);		// expects: no race, no leak, nothing else to report
 *
 * `cu` and `ctl` of tests/swcuda/driver.h are of the same driver.
 */
#ifndef TEST_CUDA_SOFT_H
#define TEST_CUDA_SOFT_H

#include <kv/cuda.h>

#include "cuda/engine.h"
#include "dev_move.h"
#include "tests/support/cleanup.h"
#include "tests/swcuda/driver.h"

#define POOL_MAX_PLANES	80

struct kv_dev *soft_open(const char *options);
void soft_close(struct kv_dev *dev);
#define DEV_TEST(suite, name, make, ...) \
	TEST_WITH(struct kv_dev *dev, make, soft_close, suite, name, ##__VA_ARGS__)
void soft_expect_quiet(void);			/* nothing reported so far */

/* A pool on the device or on the host, and what should be in it. */
struct blocks {
	const struct kv_dev_ops *ops;
	struct kv_dev *dev;			/* NULL: memory of the host, at host.ptr */
	struct kv_host_mem host;
	u64 base, bytes;
	struct kvmm_plane plane[POOL_MAX_PLANES];
	struct kv_planes planes;
	u32 nr;
	u8 *expected;				/* as if it were all at base */
};

/* How the planes of a pool lie. */
struct layout {
	const char *name;
	u32 nr_planes;
	u64 bytes;			/* of a piece; that of plane p is p * @more longer */
	u64 gap;			/* behind each piece */
	u64 shift;			/* of the first piece */
	bool is_crossed;		/* blocks in a row, each with all its pieces */
	u64 more;
};

extern const struct layout layouts[];
extern const u32 nr_layouts;

void blocks_init(struct blocks *blocks, const struct kv_dev_ops *ops, struct kv_dev *dev,
		 const struct layout *layout, u32 nr);
void blocks_init_host(struct blocks *blocks, const struct kv_dev_ops *ops, struct kv_dev *dev,
		      const struct layout *layout, u32 nr, bool is_pinned);
void blocks_exit(struct blocks *blocks, struct kv_dev *dev);
void blocks_scramble(struct blocks *blocks);	/* other content everywhere, gaps included */
void blocks_expect_moves(struct blocks *dst, const struct blocks *src, const struct kv_move *moves,
			 u32 nr);
bool blocks_are_right(struct blocks *blocks);	/* every byte, gaps included */

u32 random_below(u32 n);
void random_seed(u64 seed);

/* @nr moves of up to @longest blocks; the result: how many there were room for. */
u32 random_moves(struct kv_move *moves, u32 nr, u32 longest, u32 src_blocks, u32 dst_blocks,
		 bool is_free);

#endif /* TEST_CUDA_SOFT_H */
