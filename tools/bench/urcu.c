// SPDX-License-Identifier: Apache-2.0
/*
 * liburcu's table; see urcu.h. Its functions are calls, as in any program that links it, unless
 * CONFIG_URCU_INLINE says that they are compiled in.
 */
#include <urcu/urcu-memb.h>

#include <urcu/rculfhash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/hash.h>

#include "pools.h"
#include "urcu.h"

struct node {
	struct cds_lfht_node link;
	kvmm_key_t key;
	u64 domain;
	u32 refs;	/* atomic */
} __attribute__((aligned(64)));

struct urcu_table {
	struct cds_lfht *index;
	struct node *node;
	u32 nr;
	u64 seed;
};

/* liburcu wants to know its threads, each once. Return: this one it did not know. */
static __thread bool known;

static bool known_enter(void)
{
	if (known)
		return false;
	urcu_memb_register_thread();
	known = true;
	return true;
}

static void known_exit(bool entered)
{
	if (!entered)
		return;
	urcu_memb_unregister_thread();
	known = false;
}

struct urcu_table *urcu_open(const kvmm_key_t *keys, u32 nr, u64 seed, bool scattered)
{
	struct urcu_table *table = must_alloc(sizeof(*table));
	unsigned long nr_buckets = 1ul << kv_order(nr);
	u32 *place = must_alloc(nr * sizeof(*place));

	known_enter();
	*table = (struct urcu_table){ .nr = nr, .seed = seed };
	/* Of a size that is known: then the buckets are one array, not one of each power of two. */
	table->index = cds_lfht_new_flavor(nr_buckets, nr_buckets, nr_buckets, 0,
					   &urcu_memb_flavor, NULL);
	table->node = large_alloc(nr * sizeof(*table->node));
	if (!table->index || !table->node) {
		table->nr = 0;
		free(place);
		urcu_close(table);
		return NULL;
	}
	for (u32 i = 0; i < nr; i++)
		place[i] = i;
	if (scattered)
		shuffle(place, nr, sizeof(*place), &seed);
	for (u32 i = 0; i < nr; i++) {
		struct node *node = &table->node[place[i]];

		*node = (struct node){ .key = keys[i] };
		cds_lfht_node_init(&node->link);
		urcu_memb_read_lock();
		cds_lfht_add(table->index, kv_hash_key(&node->key, table->seed), &node->link);
		urcu_memb_read_unlock();
	}
	free(place);
	return table;
}

void urcu_close(struct urcu_table *table)
{
	if (!table)
		return;
	urcu_memb_read_lock();
	for (u32 i = 0; i < table->nr; i++)
		cds_lfht_del(table->index, &table->node[i].link);
	urcu_memb_read_unlock();
	urcu_memb_synchronize_rcu();
	if (table->index)
		cds_lfht_destroy(table->index, NULL);
	free(table->node);
	free(table);
	known_exit(true);
}

static int node_is(struct cds_lfht_node *link, const void *key)
{
	const struct node *node = container_of(link, struct node, link);

	return !memcmp(&node->key, key, sizeof(node->key)) && !node->domain;
}

int urcu_match(struct urcu_table *table, const kvmm_key_t *keys, u32 nr, kvmm_ref_t *refs)
{
	struct cds_lfht_iter iter;
	u32 i;

	urcu_memb_read_lock();
	for (i = 0; i < nr; i++) {
		struct cds_lfht_node *link;
		struct node *node;

		cds_lfht_lookup(table->index, kv_hash_key(&keys[i], table->seed), node_is, &keys[i],
				&iter);
		link = cds_lfht_iter_get_node(&iter);
		if (!link)
			break;
		node = container_of(link, struct node, link);
		if (!refs)
			continue;
		kv_fetch_add(&node->refs, 1);
		refs[i] = (kvmm_ref_t){ .index = node - table->node };
	}
	urcu_memb_read_unlock();
	return i;
}

int urcu_put(struct urcu_table *table, const kvmm_ref_t *refs, u32 nr)
{
	int err = 0;

	for (u32 i = 0; i < nr; i++)
		if (!kv_fetch_sub(&table->node[refs[i].index].refs, 1))
			err = -EUCLEAN;
	return err;
}

void urcu_remove(struct urcu_table *table, u32 first, u32 nr)
{
	bool entered = known_enter();

	urcu_memb_read_lock();
	for (u32 i = first; i < first + nr; i++)
		cds_lfht_del(table->index, &table->node[i].link);
	urcu_memb_read_unlock();
	urcu_memb_synchronize_rcu();
	known_exit(entered);
}

int urcu_register(struct urcu_table *table, u32 first, const kvmm_key_t *keys, u32 nr)
{
	bool entered = known_enter();
	int err = 0;

	urcu_memb_read_lock();
	for (u32 i = 0; i < nr; i++) {
		struct node *node = &table->node[first + i];
		u64 hash = kv_hash_key(&keys[i], table->seed);

		*node = (struct node){ .key = keys[i] };
		cds_lfht_node_init(&node->link);
		if (cds_lfht_add_unique(table->index, hash, node_is, &node->key, &node->link) !=
		    &node->link)
			err = -EUCLEAN;
	}
	urcu_memb_read_unlock();
	known_exit(entered);
	return err;
}
