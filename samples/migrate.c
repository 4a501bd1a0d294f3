// SPDX-License-Identifier: Apache-2.0
/*
 * A request leaves for another pool: its range, and the prompt that is cached.
 *
 * usage: migrate [FROM [TO]]	devices: "host" (the default), "soft:0", "cuda:1"
 */
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES	4096
#define SEQ		42
#define SECOND_NS	1000000000ull

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, kvmm_strerror(err));
	return 1;
}

static int make(const char *device, struct kvmm_pool **pool)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.device = device;
	attr.nr_blocks = 256;
	attr.block_bytes = BLOCK_BYTES;
	return kvmm_pool_create(&attr, pool);
}

/* To its end; an engine polls it instead, and does other things in between. */
static int run(const struct kvmm_migrate_attr *attr)
{
	struct kvmm_migrate_status status;
	struct kvmm_migrate *job;
	struct kvmm_relocation move;
	kvmm_range_t range;
	kvmm_ref_t refs[20];
	int err = kvmm_migrate_start(attr, &job);

	if (err)
		return err;
	err = kvmm_migrate_wait(job, 10 * SECOND_NS);
	kvmm_migrate_get_status(job, &status);
	printf("%s: %u blocks in %u copies, by path %s, %u verified\n",
	       kvmm_migrate_phase_name(status.phase), status.nr_copied, status.nr_descriptors,
	       kvmm_migrate_path_name(status.path), status.nr_verified);
	if (!err)
		printf("%d range and %d cached blocks there; %d runs have moved\n",
		       kvmm_migrate_ranges(job, &range, 1), kvmm_migrate_refs(job, NULL, 0),
		       kvmm_migrate_relocations(job, &move, 1));
	if (!err && kvmm_migrate_refs(job, refs, 20) > 0)
		kvmm_put_many(attr->dst, refs, 20);	/* no request reads them yet */
	kvmm_migrate_free(job);
	return err;
}

static int migrate_range(struct kvmm_pool *from, struct kvmm_pool *to)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_range_attr range = { .size = sizeof(range), .nr = 75, .seq = SEQ };
	int err = kvmm_range_alloc_attr(from, &range, &attr.range);

	if (err)
		return err;
	attr.src = from;
	attr.dst = to;
	return run(&attr);
}

static int migrate_prompt(struct kvmm_pool *from, struct kvmm_pool *to)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	kvmm_key_t keys[20];
	struct kvmm_prefix prefix = { keys, 20, 0, NULL, { 0, 0, 0 } };
	kvmm_mut_t blocks[20];
	kvmm_ref_t refs[20];
	int i, err;

	memset(keys, 0, sizeof(keys));
	for (i = 0; i < 20; i++)
		keys[i].byte[0] = i;		/* an engine hashes tokens: see <kvmm/key.h> */
	err = kvmm_alloc(from, 20, blocks);
	if (!err)
		err = kvmm_register(from, blocks, keys, 20, refs);
	if (err)
		return err;
	kvmm_put_many(from, refs, 20);

	attr.src = from;
	attr.dst = to;
	attr.what = KVMM_MIGRATE_KEYS;
	attr.prefix = &prefix;
	err = run(&attr);
	printf("cached: %d blocks here, %d there\n", kvmm_match_len(from, keys, 20),
	       kvmm_match_len(to, keys, 20));
	return err;
}

int main(int argc, char **argv)
{
	struct kvmm_pool *from, *to;
	int err;

	err = make(argc > 1 ? argv[1] : "host", &from);
	if (err)
		return fail("the first pool", err);
	err = make(argc > 2 ? argv[2] : "host", &to);
	if (err)
		return fail("the second pool", err);
	err = migrate_range(from, to);
	if (!err)
		err = migrate_prompt(from, to);
	if (err)
		return fail("migration", err);
	printf("sequence %d: %d range here, %d there\n", SEQ,
	       kvmm_range_find_seq(from, SEQ, NULL, 0), kvmm_range_find_seq(to, SEQ, NULL, 0));
	kvmm_pool_destroy(from);
	kvmm_pool_destroy(to);
	return 0;
}
