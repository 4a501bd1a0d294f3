// SPDX-License-Identifier: Apache-2.0
/* E4: the same moves without a kernel: a call a piece, a call for many pieces. */
#include "gpu.h"

#define NR	1024u

struct pieces {
	struct scatter scatter;
	kcu_deviceptr dst[NR], src[NR];
	size_t bytes[NR];
};

static void submit_singles(void *arg)
{
	struct pieces *p = arg;

	for (u32 i = 0; i < p->scatter.nr; i++)
		CU(memcpy_dtod_async, p->dst[i], p->src[i], p->bytes[i], gpu.stream);
}

static void submit_batch(void *arg)
{
	struct pieces *p = arg;

	batch_copy(p->dst, p->src, p->bytes, p->scatter.nr);
}

static void submit_kernel(void *arg)
{
	struct pieces *p = arg;

	scatter_launch(&p->scatter, 8 * gpu.nr_sms, p->scatter.nr_threads);
}

/* Returns microseconds on the device. */
static double measure(struct pieces *p, const char *how, void (*submit)(void *arg), double ref)
{
	struct samples device, host;
	double per_piece;

	scatter_poison(&p->scatter);
	time_both(&device, &host, submit, p);
	scatter_verify(&p->scatter);
	report("move_us", "us", &device, ref ? "kernel" : NULL, ref, "how=%s piece=%llu nr=%u",
	       how, (unsigned long long)p->scatter.piece, p->scatter.nr);
	per_piece = 1.0 / p->scatter.nr;
	for (u32 i = 0; i < host.nr; i++)
		host.value[i] *= per_piece;
	report("submit_us_each", "us", &host, NULL, 0, "how=%s piece=%llu nr=%u", how,
	       (unsigned long long)p->scatter.piece, p->scatter.nr);
	return median(&device);
}

static void measure_all(struct pieces *p, u64 piece)
{
	double kernel_us;

	scatter_open(&p->scatter, piece, 2 * GIB, NR);
	for (u32 i = 0; i < p->scatter.nr; i++) {
		p->src[i] = piece_at(&p->scatter, p->scatter.moves[i].src);
		p->dst[i] = piece_at(&p->scatter, p->scatter.moves[i].dst);
		p->bytes[i] = piece;
	}
	kernel_us = measure(p, "kernel", submit_kernel, 0);
	measure(p, "single", submit_singles, kernel_us);
	if (has_batch())
		measure(p, "batch", submit_batch, kernel_us);
	else
		report_fact("batched copies", "this driver has none");
	scatter_close(&p->scatter);
}

static void run(void)
{
	static const u64 pieces[] = { 64, 32, 4, 2048, 8, 256 };
	static struct pieces p;

	gpu_randomise();
	for (u32 i = 0; i < ARRAY_SIZE(pieces) && !out_of_time(); i++)
		measure_all(&p, pieces[i] * KIB);
}

const struct experiment experiment_baseline = {
	"E4", "the same moves by single and by batched copies", run, 3,
};
