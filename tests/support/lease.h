/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms of calls about leases; 0 is success. */
#ifndef TESTS_LEASE_H
#define TESTS_LEASE_H

#include <errno.h>

#include <kvmm/ext/lease.h>

static inline int drop_lease(struct kvmm_pool *pool, kvmm_lease_t lease)
{
	int nr = kvmm_lease_release(pool, 0, &lease);

	return nr == 1 ? 0 : nr;
}

static inline int renew_lease(struct kvmm_pool *pool, kvmm_lease_t lease, uint64_t lease_ns)
{
	int nr = kvmm_lease_renew(pool, 0, &lease, lease_ns);

	return nr == 1 ? 0 : nr;
}

static inline int lease_refs(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr,
			     const kvmm_ref_t *refs, uint32_t nr, kvmm_lease_t *lease)
{
	struct kvmm_lease_attr with = *attr;
	int ret;

	with.refs = refs;
	with.nr_refs = nr;
	ret = kvmm_lease_take(pool, &with, lease);
	return ret == (int)nr ? 0 : ret;
}

static inline int lease_range(struct kvmm_pool *pool, const struct kvmm_lease_attr *attr,
			      kvmm_range_t range, kvmm_lease_t *lease)
{
	struct kvmm_lease_attr with = *attr;

	with.range = range;
	return kvmm_lease_take(pool, &with, lease);
}

/* One more: 0; -ENOENT that was all. */
static inline int next_leased(struct kvmm_pool *pool, const struct kvmm_lease_filter *filter,
			      uint64_t *cursor, struct kvmm_lease_info *row)
{
	int nr = kvmm_lease_list(pool, filter, cursor, row, 1);

	return nr == 1 ? 0 : nr ? nr : -ENOENT;
}

/* References with an owner alone. */
static inline int next_hold(struct kvmm_pool *pool, uint64_t *cursor, struct kvmm_lease_info *row)
{
	struct kvmm_lease_filter holds = KVMM_LEASE_FILTER_INIT;

	holds.kinds = 1u << KVMM_LEASED_REFS | 1u << KVMM_LEASED_PINS;
	return next_leased(pool, &holds, cursor, row);
}

/* How many there are; the first @max of them in @rows. */
static inline int list_all(struct kvmm_pool *pool, const struct kvmm_lease_filter *filter,
			   struct kvmm_lease_info *rows, uint32_t max)
{
	struct kvmm_lease_info row;
	uint64_t cursor = 0;
	uint32_t nr;
	int err;

	for (nr = 0; !(err = next_leased(pool, filter, &cursor, &row)); nr++)
		if (nr < max)
			rows[nr] = row;
	return err == -ENOENT ? (int)nr : err;
}

/* The leases on the block of a key; @domain NULL: 0. */
static inline int leases_of_key(struct kvmm_pool *pool, const kvmm_key_t *key,
				const kvmm_domain_t *domain, struct kvmm_lease_info *rows,
				uint32_t max)
{
	struct kvmm_lease_filter filter = KVMM_LEASE_FILTER_INIT;

	filter.key = key;
	if (domain)
		filter.domain = *domain;
	return list_all(pool, &filter, rows, max);
}

/* All that is suspicious; @filter NULL: deadlines that are over, and what the dead have left. */
static inline int list_leaks(struct kvmm_pool *pool, const struct kvmm_lease_filter *filter,
			     struct kvmm_lease_info *rows, uint32_t max)
{
	struct kvmm_lease_filter with = KVMM_LEASE_FILTER_INIT;

	if (filter)
		with = *filter;
	with.leaks = KVMM_LEAK_ANY;
	return list_all(pool, &with, rows, max);
}

/* How many blocks it has; the references to the first @max, at most 32, in @refs. */
static inline int refs_of_lease(struct kvmm_pool *pool, kvmm_lease_t lease, kvmm_ref_t *refs,
				uint32_t max)
{
	struct kvmm_lease_addr addrs[32];
	int nr = kvmm_lease_addrs(pool, lease, addrs, max);

	for (int i = 0; i < nr && i < (int)max; i++)
		refs[i] = (kvmm_ref_t){ addrs[i].index, addrs[i].gen };
	return nr;
}

#endif /* TESTS_LEASE_H */
