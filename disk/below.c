// SPDX-License-Identifier: Apache-2.0
/*
 * A disk store below a host tier. Transfers are told apart by their address, so no other user may
 * submit anything to the same store.
 */
#include <kv/disk.h>
#include <kv/mem.h>
#include <kvmm/ext/disk.h>
#include <tier/internal.h>

#define POLL_MAX	16u

static struct kvmm_disk_name disk_name(const struct kv_tier_name *name)
{
	struct kvmm_disk_name disk = { .tenant = name->domain.tenant, .group = name->domain.group,
				       .key_bytes = KVMM_KEY_BYTES };
	u64 layout = name->domain.layout;

	memcpy(disk.layout, &name->layout, sizeof(name->layout));
	memcpy(disk.layout + sizeof(name->layout), &layout, sizeof(layout));
	memcpy(disk.key, name->key.byte, KVMM_KEY_BYTES);
	return disk;
}

static enum kvmm_tier_answer lookup(void *store, const struct kv_tier_name *name)
{
	struct kvmm_disk_name disk = disk_name(name);
	enum kv_disk_answer answer = kv_disk_lookup(store, &disk);

	return answer == KV_DISK_HIT ? KVMM_TIER_HIT :
	       answer == KV_DISK_PENDING ? KVMM_TIER_RETRY : KVMM_TIER_MISS;
}

static int put(void *store, struct kv_tier_io *io)
{
	struct kvmm_disk_put_args req = { .name = disk_name(&io->name), .data = io->buf,
					  .bytes = io->bytes, .position = io->name.position };

	if (io->name.has_parent) {
		req.parent_bytes = KVMM_KEY_BYTES;
		memcpy(req.parent, io->name.parent.byte, KVMM_KEY_BYTES);
	}
	return kv_disk_submit_put(store, &req, 1, 0, (uintptr_t)io);
}

static int get(void *store, struct kv_tier_io *io)
{
	struct kvmm_disk_get_args req = { .name = disk_name(&io->name), .data = io->buf,
					  .room = io->bytes };

	return kv_disk_submit_get(store, &req, 1, (uintptr_t)io);
}

static int forget(void *store, const struct kv_tier_name *names, u32 nr, bool for_good, u8 *had)
{
	struct kvmm_disk_name one, *disk = nr == 1 ? &one : kv_alloc_array(nr, sizeof(*disk));
	int ret;

	if (!disk)
		return -ENOMEM;
	for (u32 i = 0; i < nr; i++) {
		disk[i] = disk_name(&names[i]);
		/* One by one: a name that stands twice is there once. */
		if (had)
			had[i] |= kv_disk_forget(store, &disk[i], 1, 0) > 0;
	}
	ret = kv_disk_forget(store, disk, nr, for_good ? KV_DISK_WIPE : 0);
	if (disk != &one)
		kv_free(disk);
	return min(ret, 0);
}

static int reset(void *store)
{
	int64_t ret = kv_disk_reset(store);

	return ret < 0 ? (int)ret : 0;
}

static u32 poll(void *store, struct kv_tier_io **result, u32 max)
{
	struct kv_disk_done done[POLL_MAX];
	u32 nr = kv_disk_poll(store, done, min(max, POLL_MAX));

	for (u32 i = 0; i < nr; i++) {
		struct kv_tier_io *io = (struct kv_tier_io *)(uintptr_t)done[i].tag;

		/* A record that is there already need not be written. */
		io->was_there = done[i].is_put && done[i].status == -EEXIST;
		io->error = io->was_there ? 0 : done[i].status;
		/* One of another length is another record. */
		if (!done[i].is_put && !done[i].status && done[i].bytes != io->bytes)
			io->error = -EBADMSG;
		result[i] = io;
	}
	return nr;
}

static int check(void *store)
{
	return kv_disk_check(store);
}

static void glance(void *store, struct kvmm_disk_stat *stat)
{
	kv_disk_glance(store, stat);
}

static const struct kv_tier_ops disk_ops = {
	.lookup		= lookup,
	.put		= put,
	.get		= get,
	.forget		= forget,
	.reset		= reset,
	.poll		= poll,
	.check		= check,
	.glance		= glance,
	.tell		= kv_disk_listen,
	.next_name	= kv_disk_next_name,
};

int kv_tier_set_disk(struct kvmm_tier *tier, struct kvmm_disk *disk,
		     const struct kvmm_tier_disk_attr *attr)
{
	struct kvmm_tier_disk_attr known;
	int err = tier_disk_attr(attr, &known);

	if (err)
		return err;
	if (!tier->unit_bytes)
		return -EOPNOTSUPP;
	return kv_tier_set_below(tier, &disk_ops, disk, &known);
}
