// SPDX-License-Identifier: Apache-2.0
/*
 * What a pool says of itself while an engine runs: why blocks do not move, that their content is right, how
 * long names live, and all of it as text for Prometheus.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <stdlib.h>

#define NR_BLOCKS	32

static struct kvmm_pool *pool;
static kvmm_ref_t refs[NR_BLOCKS / 2];

/* What kvmm has to say goes to the engine's own log. */
static void hear(void *arg, int level, const char *line)
{
	fprintf(arg, "<%d>%s\n", level, line);
}

static int fill(void)
{
	kvmm_key_t keys[NR_BLOCKS / 2] = { { { 0 } } };
	kvmm_mut_t muts[NR_BLOCKS / 2];
	int err = kvmm_alloc(pool, NR_BLOCKS / 2, muts);

	for (int i = 0; i < NR_BLOCKS / 2; i++)
		keys[i].byte[0] = i + 1;
	return err ? err : kvmm_register(pool, muts, keys, NR_BLOCKS / 2, refs);
}

/* A graph is captured: the addresses in it must not change. Two blocks stay for good. */
static int capture(void)
{
	int err = kvmm_pin_many_as(pool, refs, 2, KVMM_PIN_GRAPH);

	if (!err)
		err = kvmm_pool_quiesce(pool);
	/* ... the capture ... */
	return err ? err : kvmm_pool_resume(pool);
}

static int compact(void)
{
	struct kvmm_compact pack = { .size = sizeof(pack) };
	struct kvmm_stay stay;
	int err = kvmm_put_many(pool, refs + 2, 8);

	if (!err)
		err = kvmm_reset_inactive(pool) < 0;
	if (!err)
		err = kvmm_pool_compact(pool, &pack);
	if (!err)
		err = kvmm_stay_last(pool, &stay);
	if (err)
		return err;
	printf("%u blocks moved; %u stay:\n", pack.moved, stay.staying);
	for (uint32_t i = 0; i < KVMM_NR_STAY_REASONS; i++)
		if (stay.blocks[i])
			printf("%s %u\n", kvmm_stay_reason_name(i), stay.blocks[i]);
	return 0;
}

static int verify(void)
{
	int err = 0;

	for (int step = 0; step < 3 && err >= 0; step++)
		err = kvmm_verify_tick(pool);	/* once a step; KVMM_BACKGROUND_VERIFY does it alone */
	if (err >= 0)
		err = kvmm_verify_blocks(pool, refs + 10, 2);
	printf("%d blocks compared\n", err);
	return err < 0 ? err : 0;
}

static int scrape(void)
{
	struct kvmm_metrics_attr attr = KVMM_METRICS_ATTR_INIT;
	char *text;
	int len;

	attr.pools = &pool;
	attr.nr_pools = 1;
	attr.what = "pressure/memory";
	len = kvmm_metrics_text(&attr, NULL, 0);
	text = len < 0 ? NULL : malloc(len + 1);
	if (!text)
		return -ENOMEM;
	kvmm_metrics_text(&attr, text, len + 1);
	fputs(text, stdout);
	free(text);
	return 0;
}

int main(void)
{
	struct kvmm_verify_attr sample = { .size = sizeof(sample), .sample_pm = 1000 };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	kvmm_log_set(hear, stderr);
	attr.nr_blocks = NR_BLOCKS;
	attr.block_bytes = 4096;
	err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = kvmm_verify_set(pool, &sample);
	if (!err)
		err = kvmm_residency_set(pool, KVMM_RESIDENCY_DEFAULT_PPM);
	if (!err)
		err = fill();
	if (!err)
		err = capture();
	if (!err)
		err = compact();
	if (!err)
		err = verify();
	if (!err)
		err = scrape();
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	return err != 0;
}
