// SPDX-License-Identifier: Apache-2.0
/*
 * The chained registry. With 16 buckets, that is four bits of hash, hundreds of entries make
 * chains long enough for every way of linking and unlinking to happen.
 */
#define KV_REGISTRY_MAX_BUCKETS	16u

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include <kv/env.h>
#include <kv/mem.h>

#include "registry/chained.c"

#define NR_ENTRIES	300u
#define NR_STEPS	300000u

static const struct kv_registry_ops *const ops = &kv_registry_chained;

static kvmm_key_t key_of(u32 number)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte + 12, &number, sizeof(number));
	return key;
}

static struct chains *registry_create(u32 nr_entries, u64 seed)
{
	struct chains *chains = kv_alloc(ops->bytes(nr_entries));

	cr_assert(chains);
	ops->init(chains, nr_entries, seed);
	return chains;
}

static void add(struct chains *chains, u32 entry, u32 number)
{
	kvmm_key_t key = key_of(number);

	ops->add(chains, entry, &key);
}

static u32 find(const struct chains *chains, u32 number)
{
	kvmm_key_t key = key_of(number);

	return ops->find(chains, &key);
}

static void expect_sound(const struct chains *chains, u32 nr_expected)
{
	u32 nr = ~nr_expected;

	cr_assert_eq(ops->check(chains, &nr), 0);
	cr_assert_eq(nr, nr_expected);
}

Test(registry, finds_the_oldest_of_equal_keys)
{
	struct chains *chains = registry_create(8, 1);

	add(chains, 5, 77);
	add(chains, 2, 77);
	add(chains, 7, 77);
	cr_expect_eq(find(chains, 77), 5);
	cr_expect_eq(ops->del(chains, 5), 0);
	cr_expect_eq(find(chains, 77), 2);
	add(chains, 5, 77);
	cr_expect_eq(find(chains, 77), 2);
	cr_expect_eq(ops->del(chains, 7), 0);
	cr_expect_eq(ops->del(chains, 2), 0);
	cr_expect_eq(find(chains, 77), 5);
	cr_expect_eq(ops->del(chains, 5), 0);
	cr_expect_eq(find(chains, 77), KV_NONE);
	expect_sound(chains, 0);
	kv_free(chains);
}

Test(registry, deletes_only_what_is_there)
{
	struct chains *chains = registry_create(8, 1);

	cr_expect_eq(ops->del(chains, 3), -ENOENT);
	add(chains, 3, 1);
	cr_expect_eq(ops->del(chains, 8), -ENOENT);
	cr_expect_eq(ops->del(chains, KV_NONE), -ENOENT);
	cr_expect_eq(ops->del(chains, 3), 0);
	cr_expect_eq(ops->del(chains, 3), -ENOENT);
	expect_sound(chains, 0);
	kv_free(chains);
}

Test(registry, works_with_one_entry_and_with_none)
{
	struct chains *one = registry_create(1, 9), *none = registry_create(0, 9);

	add(one, 0, 5);
	cr_expect_eq(find(one, 5), 0);
	expect_sound(one, 1);
	cr_expect_eq(find(none, 5), KV_NONE);
	expect_sound(none, 0);
	kv_free(one);
	kv_free(none);
}

Test(registry, tells_keys_apart_by_every_byte)
{
	struct chains *chains = registry_create(KVMM_KEY_BYTES * 8 + 1, 3);
	kvmm_key_t key = key_of(0);

	ops->add(chains, KVMM_KEY_BYTES * 8, &key);
	for (u32 bit = 0; bit < KVMM_KEY_BYTES * 8; bit++) {
		key.byte[bit / 8] ^= BIT(bit % 8);
		cr_expect_eq(ops->find(chains, &key), KV_NONE);
		ops->add(chains, bit, &key);
		cr_expect_eq(ops->find(chains, &key), bit);
		key.byte[bit / 8] ^= BIT(bit % 8);
	}
	cr_expect_eq(ops->find(chains, &key), KVMM_KEY_BYTES * 8);
	expect_sound(chains, KVMM_KEY_BYTES * 8 + 1);
	kv_free(chains);
}

/* What is registered, as pairs in the order of their arrival. */
struct model {
	u32 nr;
	struct {
		u32 entry;
		u32 number;
	} pair[NR_ENTRIES];
};

static u32 model_find(const struct model *model, u32 number)
{
	for (u32 i = 0; i < model->nr; i++)
		if (model->pair[i].number == number)
			return model->pair[i].entry;
	return KV_NONE;
}

static bool model_del(struct model *model, u32 entry)
{
	u32 i = 0;

	while (i < model->nr && model->pair[i].entry != entry)
		i++;
	if (i == model->nr)
		return false;
	model->nr--;
	memmove(&model->pair[i], &model->pair[i + 1],
		(model->nr - i) * sizeof(model->pair[0]));
	return true;
}

static u32 below(u64 *random, u32 limit)
{
	*random = *random * 6364136223846793005ull + 1442695040888963407ull;
	return (*random >> 33) % limit;
}

/* Takes the entry out if it is in, else puts it in; few numbers, so many duplicates. */
static void toggle(struct chains *chains, struct model *model, u32 entry, u32 number)
{
	bool was_in = model_del(model, entry);

	cr_assert_eq(ops->del(chains, entry), was_in ? 0 : -ENOENT);
	if (was_in)
		return;
	add(chains, entry, number);
	model->pair[model->nr].entry = entry;
	model->pair[model->nr++].number = number;
}

Test(registry, agrees_with_a_plain_list)
{
	u64 seed = getenv("KVMM_SEED") ? strtoull(getenv("KVMM_SEED"), NULL, 0) : kv_random();
	struct chains *chains = registry_create(NR_ENTRIES, seed);
	struct model model = { 0 };
	u64 random = seed;

	fprintf(stderr, "KVMM_SEED=%llu\n", (unsigned long long)seed);
	cr_assert_eq(chains->nr_buckets, 16);
	for (u32 i = 0; i < NR_STEPS; i++) {
		u32 number = below(&random, 150);

		toggle(chains, &model, below(&random, NR_ENTRIES), number);
		number = below(&random, 150);
		cr_assert_eq(find(chains, number), model_find(&model, number), "step %u", i);
		if (i % 64 == 0)
			expect_sound(chains, model.nr);
	}
	kv_free(chains);
}

/* Numbers in a row, in the upper bytes or the lower: no bucket gets more than its share. */
Test(registry, spreads_similar_keys_over_all_buckets)
{
	u32 nr[2][16] = { { 0 } };

	for (u32 i = 0; i < 16000; i++) {
		kvmm_key_t low = { { i, i >> 8 } }, high = key_of(i);

		nr[0][kv_hash_key(&low, 42) % 16]++;
		nr[1][kv_hash_key(&high, 42) % 16]++;
	}
	for (u32 b = 0; b < 16; b++) {
		cr_expect(nr[0][b] > 850 && nr[0][b] < 1150, "%u", nr[0][b]);
		cr_expect(nr[1][b] > 850 && nr[1][b] < 1150, "%u", nr[1][b]);
	}
}

/* Keys chosen to meet in one bucket under one seed part under another. */
Test(registry, another_seed_chooses_other_buckets)
{
	u32 nr_chosen = 0, nr_together = 0;

	for (u32 i = 0; i < 16000; i++) {
		kvmm_key_t key = key_of(i);

		if (kv_hash_key(&key, 42) % 16)
			continue;
		nr_chosen++;
		nr_together += kv_hash_key(&key, 43) % 16 == 0;
	}
	cr_expect(nr_together < nr_chosen / 8, "%u of %u", nr_together, nr_chosen);
}

static void expect_flips_noticed(struct chains *chains, u32 *word, const char *what)
{
	u32 nr;

	for (unsigned int bit = 0; bit < 32; bit++) {
		*word ^= BIT(bit);
		cr_expect_eq(ops->check(chains, &nr), -EUCLEAN, "%s, bit %u", what, bit);
		*word ^= BIT(bit);
	}
}

Test(registry, check_notices_any_flipped_bit_of_links_and_heads)
{
	struct chains *chains = registry_create(64, 5);

	for (u32 i = 0; i < 64; i++)
		add(chains, i, i / 2);
	for (u32 i = 0; i < 64; i++) {
		expect_flips_noticed(chains, &chains->node[i].next, "next");
		expect_flips_noticed(chains, &chains->node[i].prev, "prev");
		expect_flips_noticed(chains, &chains->node[i].bucket, "bucket");
		expect_flips_noticed(chains, &chains->node[i].in, "in");
	}
	for (u32 b = 0; b < chains->nr_buckets; b++)
		expect_flips_noticed(chains, &chains->head[b], "head");
	expect_flips_noticed(chains, &chains->nr, "nr");
	expect_sound(chains, 64);
	kv_free(chains);
}

Test(registry, check_notices_a_key_that_belongs_elsewhere)
{
	struct chains *chains = registry_create(64, 5);
	u32 nr, nr_noticed = 0;

	for (u32 i = 0; i < 64; i++)
		add(chains, i, i);
	for (u32 i = 0; i < 64; i++) {
		chains->node[i].key.byte[0] ^= 1;
		nr_noticed += ops->check(chains, &nr) == -EUCLEAN;
		chains->node[i].key.byte[0] ^= 1;
	}
	/* One in 16 hashes to the same bucket again. */
	cr_expect_gt(nr_noticed, 50);
	kv_free(chains);
}
