/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the experiments on a GPU share: the device, an arena of its memory, time, results.
 *
 * Everything is measured in runs that also verify: what was moved is summed up on both sides, the
 * destination held something else before. An experiment that runs out of its time leaves the rest
 * of its rows out and says so; one that fails ends, and the others go on.
 */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda/kernel/launch.h>
#include <kv/dev.h>
#include <kv/kcu.h>

#define KIB		1024ull
#define MIB		(1024 * KIB)
#define GIB		(1024 * MIB)
#define MAX_RUNS	32u

/* The device under test; fixed after gpu_open(). */
extern struct gpu {
	const struct kcu *cu;
	const struct kv_dev_ops *ops;	/* the library's engine on the same device */
	kcu_device dev;
	kcu_context ctx;		/* current */
	kcu_stream stream;
	kcu_event begin, end;
	kcu_function move16, move16_list, sum;
	int nr_sms;
	bool is_soft, is_quick;

	/* Device memory: a pool of 2^n bytes full of random data, and room for tables. */
	kcu_deviceptr pool;
	u64 pool_bytes;
	kcu_deviceptr tables;
	u64 table_bytes;
	/* Pinned host memory. */
	u8 *pinned;
	kcu_deviceptr pinned_addr;
	u64 pinned_bytes;
} gpu;

int gpu_open(const char *device, bool quick);
void gpu_close(void);
void gpu_randomise(void);			/* fill the pool anew */
const char *gpu_name(void);

/* ---- experiments ---- */

struct experiment {
	const char *name;			/* "E2" */
	const char *what;
	void (*run)(void);
	u32 share;				/* of the time, in parts of all shares */
};

extern const struct experiment experiment_load, experiment_local, experiment_baseline,
	experiment_end_to_end, experiment_vmm, experiment_pcie, experiment_interference,
	experiment_layout, experiment_defrag, experiment_stress;

void stress_hook_library(void);			/* once, behind gpu_open() */

/* Ends the experiment as failed. */
void __attribute__((noreturn)) give_up(const char *fmt, ...) __printf(1, 2);
void must_cu(kcu_result result, const char *what);
void must_be(bool good, const char *what);
#define CU(field, ...)	must_cu(gpu.cu->field(__VA_ARGS__), #field)

bool out_of_time(void);				/* true: leave; counts as "left out" */

/* ---- results ---- */

struct samples {
	double value[MAX_RUNS];
	u32 nr;
};

u64 now_ns(void);
void add_sample(struct samples *samples, double value);
double median(const struct samples *samples);
u32 wanted_runs(void);

/* One row; @ref: what it is compared with, or NULL. @params: "piece=4096 nr=1000". */
void report(const char *metric, const char *unit, const struct samples *samples,
	    const char *ref_name, double ref, const char *params, ...) __printf(6, 7);
void report_fact(const char *what, const char *fmt, ...) __printf(2, 3);

/* Device time of what @submit queues on gpu.stream, in microseconds, after a warm-up. */
void time_device(struct samples *samples, void (*submit)(void *arg), void *arg);
/* The same, and the time that the host takes to queue it. */
void time_both(struct samples *device, struct samples *host, void (*submit)(void *arg),
	       void *arg);
double rate(u64 bytes, double us);		/* GB/s */

/* ---- moves without system inside the pool ---- */

/**
 * struct scatter - @nr pieces from one half of the pool to the other
 * @piece: bytes of each
 * @moves: on the host
 * @head: for kv_move16_list
 * @list: its moves on the device
 */
struct scatter {
	u64 piece;
	u32 nr;
	u32 nr_threads;
	struct kv_move *moves;
	struct kv_move_head head;
	kcu_deviceptr list;
	kcu_deviceptr sums;
};

void scatter_open(struct scatter *scatter, u64 piece, u64 bytes, u32 max_nr);
void scatter_close(struct scatter *scatter);
void scatter_poison(const struct scatter *scatter);	/* the destinations */
void scatter_verify(const struct scatter *scatter);	/* sums of all pieces on both sides */
void scatter_launch(const struct scatter *scatter, u32 nr_groups, u32 nr_threads);
u64 scatter_bytes(const struct scatter *scatter);

/* Where a piece of the pool is. */
static inline kcu_deviceptr piece_at(const struct scatter *scatter, u32 block)
{
	return gpu.pool + block * scatter->piece;
}

/* Checksums of blocks: numbers every @block_words words at @blocks. */
void sum_blocks(kcu_deviceptr table, u32 nr_planes, kcu_deviceptr blocks, u32 block_words, u32 nr,
		kcu_deviceptr sums);

/* Pieces at any addresses by one call; false: this driver has none. */
bool batch_copy(kcu_deviceptr *dst, kcu_deviceptr *src, size_t *bytes, size_t nr);
bool has_batch(void);

#endif /* TESTS_GPU_H */
