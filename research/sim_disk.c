// SPDX-License-Identifier: Apache-2.0
/*
 * A disk that is only simulated, below a host tier that has no memory: it keeps names, and time
 * goes by. It treats names as a store of <kvmm/ext/disk.h> does: it is written round and round, the
 * oldest goes first, and a name read meanwhile stays for another round, one for three that go.
 *
 * Bytes of one direction come one after the other; latencies of transfers pass at the same time.
 */
#include <kv/mem.h>

#include <tier/internal.h>

#include "sim_disk.h"

/* Behind those of stores on disk; no other lock is taken under it. */
#define LOCK_ID		0x7f000000u

#define GO_FOR_STAY	3u	/* that have to go for one that stays, */
#define MAX_CREDIT	48u	/* and one that went counts for 16 of them at most */

enum sim_state { SIM_FREE, SIM_WRITING, SIM_THERE, SIM_DEAD };

/* Guard: store->lock. */
struct sim_record {
	u64	key[2];
	u64	domain;
	u64	layout;
	u32	next;		/* in the chain of its bucket, or KV_NONE */
	u32	readers;
	u8	state;		/* enum sim_state; DEAD: not found; a transfer has it still */
	u8	value;		/* reads, less those that it has stayed for */
};

/* Transfers are in the order in which they end; those at once have no work. */
enum sim_list { SIM_PUT, SIM_GET, SIM_AT_ONCE, NR_SIM_LISTS };

/* Guard: store->lock. */
struct sim_flight {
	struct kv_tier_io	*io;	/* the caller's */
	u64			due_ns;
	u32			record;	/* or KV_NONE */
	u32			next;	/* free, or in a list; or KV_NONE */
	bool			reads;	/* it is one of ->record's readers */
};

struct sim_store {
	/* Fixed at creation. */
	struct kvmm_tier	*tier;		/* it has the clock; it has us */
	struct kvmm_tier_link	link[2];	/* put, get */
	u32			nr;		/* records */
	u32			nr_buckets;	/* a power of two */
	u32			nr_flights;

	struct kv_lock		lock;
	struct sim_record	*record;	/* ours; ->lock */
	u32			*bucket;	/* ours; ->lock */
	struct sim_flight	*flight;	/* ours; ->lock */
	u32			free;		/* ->lock; flights */
	u32			first[NR_SIM_LISTS];	/* ->lock */
	u32			last[NR_SIM_LISTS];	/* ->lock; if there is a first */
	u64			busy_ns[2];	/* ->lock; the last byte on its way is there then */
	u32			cursor;		/* ->lock; the oldest record */
	u32			credit;		/* ->lock */
	u32			nr_there;	/* ->lock */
	u64			dropped;	/* ->lock */
};

/* ---- names ---- */

static u32 *bucket_of(const struct sim_store *store, const u64 key[2])
{
	kvmm_key_t bytes;

	memcpy(&bytes, key, sizeof(bytes));
	return &store->bucket[kv_hash_key(&bytes, store->tier->secret) & (store->nr_buckets - 1)];
}

static u32 find(const struct sim_store *store, const struct kv_tier_name *name)
{
	u64 domain = kv_domain_word(name->domain), key[2];
	u32 i;

	kv_key_words(&name->key, key);
	for (i = *bucket_of(store, key); i != KV_NONE; i = store->record[i].next) {
		const struct sim_record *record = &store->record[i];

		if (record->key[0] == key[0] && record->key[1] == key[1] &&
		    record->domain == domain && record->layout == name->layout)
			break;
	}
	return i;
}

static void hash(struct sim_store *store, u32 i, const struct kv_tier_name *name)
{
	struct sim_record *record = &store->record[i];
	u32 *head;

	*record = (struct sim_record){ .domain = kv_domain_word(name->domain),
				       .layout = name->layout, .state = SIM_WRITING };
	kv_key_words(&name->key, record->key);
	head = bucket_of(store, record->key);
	record->next = *head;
	*head = i;
}

/* No look-up finds it any more; it is free when no transfer has it. */
static void bury(struct sim_store *store, u32 i)
{
	struct sim_record *record = &store->record[i];
	u32 *at = bucket_of(store, record->key);

	while (*at != i)
		at = &store->record[*at].next;
	*at = record->next;
	store->nr_there -= record->state == SIM_THERE;
	record->state = record->readers || record->state == SIM_WRITING ? SIM_DEAD : SIM_FREE;
}

/* ---- room ---- */

static bool stays(struct sim_store *store, struct sim_record *record)
{
	if (!record->value || store->credit < GO_FOR_STAY)
		return false;
	store->credit -= GO_FOR_STAY;
	record->value /= 2;
	return true;
}

/* A free record, for which another may have had to go; or KV_NONE: transfers have all of them. */
static u32 take_place(struct sim_store *store)
{
	for (u32 n = 0; n < store->nr; n++) {
		u32 i = store->cursor;
		struct sim_record *record = &store->record[i];

		store->cursor = i + 1 < store->nr ? i + 1 : 0;
		if (record->state == SIM_FREE)
			return i;
		if (record->state != SIM_THERE || record->readers || stays(store, record))
			continue;
		bury(store, i);
		store->dropped++;
		store->credit = min(store->credit + 1, MAX_CREDIT);
		return i;
	}
	return KV_NONE;
}

/* ---- transfers ---- */

static void enqueue(struct sim_store *store, enum sim_list list, u32 flight)
{
	store->flight[flight].next = KV_NONE;
	if (store->first[list] == KV_NONE)
		store->first[list] = flight;
	else
		store->flight[store->last[list]].next = flight;
	store->last[list] = flight;
}

/* A flight there is: the caller has looked. */
static void begin(struct sim_store *store, enum sim_list list, struct kv_tier_io *io, u32 record)
{
	u64 now = kv_tier_now(store->tier);
	u32 i = store->free;
	struct sim_flight *flight = &store->flight[i];

	store->free = flight->next;
	*flight = (struct sim_flight){ .io = io, .due_ns = now, .record = record,
				       .reads = list == SIM_GET };
	if (list != SIM_AT_ONCE) {
		u64 *busy = &store->busy_ns[list];

		*busy = max(*busy, now) + link_bytes_ns(&store->link[list], io->bytes);
		flight->due_ns = *busy + store->link[list].latency_ns;
	}
	io->error = 0;
	enqueue(store, list, i);
}

static int put_locked(struct sim_store *store, struct kv_tier_io *io)
{
	u32 i;

	kv_assert_held(&store->lock);
	if (store->free == KV_NONE)
		return -EAGAIN;
	if (find(store, &io->name) != KV_NONE) {
		begin(store, SIM_AT_ONCE, io, KV_NONE);
		io->was_there = true;
		return 0;
	}
	i = take_place(store);
	if (i == KV_NONE)
		return -EAGAIN;
	hash(store, i, &io->name);
	begin(store, SIM_PUT, io, i);
	return 0;
}

static int get_locked(struct sim_store *store, struct kv_tier_io *io)
{
	u32 i = find(store, &io->name);
	struct sim_record *record = &store->record[i];

	kv_assert_held(&store->lock);
	if (i == KV_NONE)
		return -ENOENT;
	if (store->free == KV_NONE || record->state == SIM_WRITING)
		return -EAGAIN;
	record->readers++;
	record->value += record->value < UINT8_MAX;
	begin(store, SIM_GET, io, i);
	return 0;
}

static void end_record(struct sim_store *store, const struct sim_flight *flight)
{
	struct sim_record *record = &store->record[flight->record];

	record->readers -= flight->reads;
	if (record->state == SIM_WRITING) {
		record->state = SIM_THERE;
		store->nr_there++;
	} else if (record->state == SIM_DEAD && !record->readers) {
		record->state = SIM_FREE;
	}
}

/* The first of a list, if it has ended. */
static struct kv_tier_io *end_one(struct sim_store *store, enum sim_list list, u64 now)
{
	u32 i = store->first[list];
	struct sim_flight *flight = &store->flight[i];

	if (i == KV_NONE || flight->due_ns > now)
		return NULL;
	store->first[list] = flight->next;
	if (flight->record != KV_NONE)
		end_record(store, flight);
	flight->io->ended_ns = flight->due_ns;
	flight->io->has_ended = true;
	flight->next = store->free;
	store->free = i;
	return flight->io;
}

/* ---- calls of the tier: struct kv_tier_ops ---- */

static enum kvmm_tier_answer lookup(void *arg, const struct kv_tier_name *name)
{
	enum kvmm_tier_answer answer = KVMM_TIER_MISS;
	struct sim_store *store = arg;
	u32 i;

	kv_lock(&store->lock);
	i = find(store, name);
	if (i != KV_NONE)
		answer = store->record[i].state == SIM_THERE ? KVMM_TIER_HIT : KVMM_TIER_RETRY;
	kv_unlock(&store->lock);
	return answer;
}

static int put(void *arg, struct kv_tier_io *io)
{
	struct sim_store *store = arg;
	int err;

	kv_lock(&store->lock);
	err = put_locked(store, io);
	kv_unlock(&store->lock);
	return err;
}

static int get(void *arg, struct kv_tier_io *io)
{
	struct sim_store *store = arg;
	int err;

	kv_lock(&store->lock);
	err = get_locked(store, io);
	kv_unlock(&store->lock);
	return err;
}

static int forget(void *arg, const struct kv_tier_name *names, u32 nr, bool for_good, u8 *had)
{
	struct sim_store *store = arg;

	kv_lock(&store->lock);
	for (u32 n = 0; n < nr; n++) {
		u32 i = find(store, &names[n]);

		if (i == KV_NONE)
			continue;
		if (had)
			had[n] = true;
		bury(store, i);
	}
	kv_unlock(&store->lock);
	return 0;
}

static int reset(void *arg)
{
	struct sim_store *store = arg;

	kv_lock(&store->lock);
	for (u32 i = 0; i < store->nr; i++)
		if (store->record[i].state == SIM_WRITING || store->record[i].state == SIM_THERE)
			bury(store, i);
	kv_unlock(&store->lock);
	return 0;
}

static u32 poll(void *arg, struct kv_tier_io **done, u32 max)
{
	struct sim_store *store = arg;
	u64 now = kv_tier_now(store->tier);
	u32 nr = 0;

	kv_lock(&store->lock);
	for (u32 list = 0; list < NR_SIM_LISTS; list++) {
		struct kv_tier_io *io = NULL;

		while (nr < max && (io = end_one(store, list, now)))
			done[nr++] = io;
	}
	kv_unlock(&store->lock);
	return nr;
}

static int due(void *arg, u64 *due_ns)
{
	struct sim_store *store = arg;
	int err = -ENOENT;

	kv_lock(&store->lock);
	for (u32 list = 0; list < NR_SIM_LISTS; list++) {
		u32 i = store->first[list];

		if (i == KV_NONE)
			continue;
		*due_ns = err ? store->flight[i].due_ns : min(*due_ns, store->flight[i].due_ns);
		err = 0;
	}
	kv_unlock(&store->lock);
	return err;
}

static void count(void *arg, u64 *nr_blocks, u64 *nr_dropped)
{
	struct sim_store *store = arg;

	kv_lock(&store->lock);
	*nr_blocks = store->nr_there;
	*nr_dropped = store->dropped;
	kv_unlock(&store->lock);
}

/* ---- a recount ---- */

struct recount {
	u32 nr_there;
	u32 nr_named;		/* in chains */
	u32 nr_found;		/* that should be */
	u32 nr_writing;		/* or not found, and not read */
	u32 nr_writers;		/* transfers */
	u64 nr_readers;
	u64 nr_reads;		/* transfers */
	u32 nr_flights;		/* and those that are free */
};

static void recount_records(const struct sim_store *store, struct recount *re)
{
	for (u32 i = 0; i < store->nr; i++) {
		const struct sim_record *record = &store->record[i];

		re->nr_there += record->state == SIM_THERE;
		re->nr_found += record->state == SIM_THERE || record->state == SIM_WRITING;
		re->nr_writing += record->state == SIM_WRITING ||
				  (record->state == SIM_DEAD && !record->readers);
		re->nr_readers += record->readers;
	}
	for (u32 b = 0; b < store->nr_buckets; b++)
		for (u32 i = store->bucket[b]; i != KV_NONE && re->nr_named <= store->nr;
		     i = store->record[i].next)
			re->nr_named++;
}

static void recount_list(const struct sim_store *store, u32 first, struct recount *re)
{
	for (u32 i = first; i != KV_NONE && re->nr_flights <= store->nr_flights;
	     i = store->flight[i].next) {
		const struct sim_flight *flight = &store->flight[i];

		re->nr_flights++;
		re->nr_reads += flight->reads;
		re->nr_writers += !flight->reads && flight->record != KV_NONE;
	}
}

static void recount_flights(const struct sim_store *store, struct recount *re)
{
	struct recount ignored = { 0 };

	for (u32 list = 0; list < NR_SIM_LISTS; list++)
		recount_list(store, store->first[list], re);
	recount_list(store, store->free, &ignored);
	re->nr_flights += ignored.nr_flights;
}

static int check(void *arg)
{
	struct sim_store *store = arg;
	struct recount re = { 0 };
	int err = 0;

	kv_lock(&store->lock);
	recount_records(store, &re);
	recount_flights(store, &re);
	if (re.nr_there != store->nr_there || re.nr_named != re.nr_found ||
	    re.nr_writing != re.nr_writers || re.nr_readers != re.nr_reads ||
	    re.nr_flights != store->nr_flights || store->cursor >= store->nr ||
	    store->credit > MAX_CREDIT)
		err = -EUCLEAN;
	kv_unlock(&store->lock);
	return err;
}

/* ---- coming and going ---- */

static void close(void *arg)
{
	struct sim_store *store = arg;

	kv_free(store->flight);
	kv_free(store->bucket);
	kv_free(store->record);
	kv_free(store);
}

static const struct kv_tier_ops sim_ops = {
	.close		= close,
	.lookup		= lookup,
	.put		= put,
	.get		= get,
	.forget		= forget,
	.reset		= reset,
	.poll		= poll,
	.check		= check,
	.due		= due,
	.count		= count,
};

static void init_store(struct sim_store *store, struct kvmm_tier *tier,
		       const struct kvmm_tier_sim_attr *attr)
{
	store->tier = tier;
	store->link[SIM_PUT] = attr->write;
	store->link[SIM_GET] = attr->read;
	store->nr = attr->capacity_blocks;
	kv_lock_init(&store->lock, KV_RANK_TIER, LOCK_ID);
	for (u32 list = 0; list < NR_SIM_LISTS; list++)
		store->first[list] = KV_NONE;
	store->free = KV_NONE;
}

static struct sim_store *make_store(struct kvmm_tier *tier, const struct kvmm_tier_sim_attr *attr,
				    u32 nr_flights)
{
	struct sim_store *store = kv_alloc(sizeof(*store));

	if (!store)
		return NULL;
	init_store(store, tier, attr);
	store->nr_flights = nr_flights;
	store->nr_buckets = 1u << kv_order(attr->capacity_blocks);
	store->record = kv_alloc_array(store->nr, sizeof(*store->record));
	store->bucket = kv_alloc_array(store->nr_buckets, sizeof(*store->bucket));
	store->flight = kv_alloc_array(nr_flights, sizeof(*store->flight));
	if (!store->record || !store->bucket || !store->flight) {
		close(store);
		return NULL;
	}
	memset(store->bucket, 0xff, store->nr_buckets * sizeof(*store->bucket));
	for (u32 i = nr_flights; i-- > 0;) {
		store->flight[i].next = store->free;
		store->free = i;
	}
	return store;
}

static bool attr_is_bad(const struct kvmm_tier_sim_attr *attr)
{
	return attr->size != sizeof(*attr) || !attr->capacity_blocks ||
	       attr->capacity_blocks > KVMM_MAX_BLOCKS || attr->reserved;
}

int kvmm_tier_simulate_disk(struct kvmm_tier *tier, const struct kvmm_tier_sim_attr *sim,
			    const struct kvmm_tier_disk_attr *attr)
{
	struct kvmm_tier_disk_attr known;
	struct sim_store *store;
	int err;

	if (kv_inherited(tier))
		return -ECHILD;
	if (!tier || !sim || attr_is_bad(sim))
		return -EINVAL;
	if (kv_inherited(tier))
		return -ECHILD;
	err = tier_disk_attr(attr, &known);
	if (err)
		return err;
	if (tier->unit_bytes)
		return -EOPNOTSUPP;
	if (tier->below || READ_ONCE(tier->nr_users) > 1)
		return -EBUSY;
	store = make_store(tier, sim, known.max_put + known.max_get);
	if (!store)
		return -ENOMEM;
	err = kv_tier_set_below(tier, &sim_ops, store, &known);
	if (err)
		close(store);
	return err;
}
