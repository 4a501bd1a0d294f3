// SPDX-License-Identifier: Apache-2.0
/* Writing and checking the content of blocks. */
#include "pattern.h"

void pattern_init(struct pattern *pattern, const struct options *opt, struct kvmm_pool *pool)
{
	size_t words = DIV_ROUND_UP((size_t)opt->block_bytes, sizeof(u64));

	memset(pattern, 0, sizeof(*pattern));
	if (!opt->verify)
		return;
	pattern->pool = pool;
	pattern->seed = opt->seed;
	pattern->bytes = opt->block_bytes;
	pattern->want = must_alloc(words * sizeof(u64));
	pattern->got = must_alloc(words * sizeof(u64));
}

void pattern_exit(struct pattern *pattern)
{
	free(pattern->want);
	free(pattern->got);
	pattern->want = NULL;
	pattern->got = NULL;
}

static void make_words(struct pattern *pattern, u64 name)
{
	u64 word = mix64(name ^ pattern->seed);

	for (u32 i = 0; i < DIV_ROUND_UP(pattern->bytes, sizeof(u64)); i++)
		pattern->want[i] = mix64(word += 0x9e3779b97f4a7c15u);
}

enum exit_code pattern_write(struct pattern *pattern, u32 block, u64 name)
{
	int err;

	if (!pattern->want)
		return EXIT_GOOD;
	make_words(pattern, name);
	err = kvmm_block_write(pattern->pool, block, 0, pattern->want, pattern->bytes);
	return err ? complain_of(err, "write block %u", block) : EXIT_GOOD;
}

enum exit_code pattern_check(struct pattern *pattern, u32 block, u64 name, u32 q,
			     const char *when)
{
	int err;

	if (!pattern->want)
		return EXIT_GOOD;
	make_words(pattern, name);
	err = kvmm_block_read(pattern->pool, block, 0, pattern->got, pattern->bytes);
	if (err)
		return complain_of(err, "read block %u", block);
	if (memcmp(pattern->want, pattern->got, pattern->bytes))
		return complain(EXIT_WRONG, "block %u has wrong content %s, request %u", block,
				when, q);
	pattern->nr_checked++;
	return EXIT_GOOD;
}
