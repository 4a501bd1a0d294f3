// SPDX-License-Identifier: Apache-2.0
/* Tiers from their parts. */
#include <kv/cuda.h>
#include <kv/disk.h>
#include <kv/evict.h>
#include <kv/log.h>
#include <kv/pool.h>
#include <kv/remote.h>
#include <kv/sys.h>
#include <kv/tier.h>

#include "internal.h"

#define DEFAULT_POLICY	"lru"

static int find_parts(const struct kvmm_tier_attr *attr, struct kv_tier_parts *parts)
{
	*parts = (struct kv_tier_parts){ .host = &kv_dev_host };
	parts->evict = kv_evict_find(attr->policy ? attr->policy : DEFAULT_POLICY,
				     &parts->evict_args);
	if (!parts->evict)
		return kv_refuse(-ENOENT, "kvmm: tier: no policy \"%s\"", attr->policy);
	return kv_find_device(attr->device ? attr->device : "host", &parts->dev,
			      &parts->dev_number);
}

/* The driver may come by a point of cancellation. */
int kvmm_tier_host_create(const struct kvmm_tier_attr *attr, struct kvmm_tier **tier)
{
	struct kvmm_tier_attr known;
	struct kv_tier_parts parts;
	struct kvmm_tier *made = NULL;
	int err, cancel;

	kv_why_clear();
	if (!attr || !tier)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (!err)
		err = find_parts(&known, &parts);
	if (err)
		return err;
	cancel = kv_cancel_off();
	err = kv_tier_create(&known, &parts, &made);
	kv_cancel_restore(cancel);
	if (!err && known.disk)
		err = kv_tier_set_disk(made, known.disk, known.disk_attr);
	if (!err && known.remote)
		err = kv_tier_set_remote(made, known.remote, known.disk_attr);
	if (err)
		kvmm_tier_destroy(made);
	else
		*tier = made;
	return err;
}
