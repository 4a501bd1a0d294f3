// SPDX-License-Identifier: Apache-2.0
/* Children of blocks; see kv/evict_family.h. */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict_family.h>
#include <kv/mem.h>
#include <kvmm/types.h>

static_assert(KVMM_MAX_BLOCKS < KIN_PARENT, "a block id leaves the bit free");

int family_init(struct family *family, u32 nr)
{
	family->kin = kv_alloc_array(nr, sizeof(*family->kin));
	return family->kin ? 0 : -ENOMEM;
}

void family_exit(struct family *family)
{
	kv_free(family->kin);
}

void family_add(struct family *family, u32 index, u32 parent)
{
	struct kin *kin = &family->kin[index];

	if (likely(parent == KV_NONE)) {
		kin->next = ~KV_NONE;
		return;
	}
	kin->next = family->kin[parent].first;
	kin->prev = ~(KIN_PARENT | parent);
	if (~kin->next != KV_NONE)
		family->kin[~kin->next].prev = ~index;
	family->kin[parent].first = ~index;
}

void family_undel(struct family *family, u32 index, u32 parent, bool elder_stays)
{
	struct kin *kin = &family->kin[index];
	u32 elder = family_elder(family, index);

	if (elder == KV_NONE || !elder_stays) {
		family_add(family, index, parent);
		return;
	}
	kin->next = family->kin[elder].next;
	kin->prev = ~elder;
	if (~kin->next != KV_NONE)
		family->kin[~kin->next].prev = ~index;
	family->kin[elder].next = ~index;
}

void family_del(struct family *family, u32 index)
{
	struct kin *kin = &family->kin[index];
	u32 prev = ~kin->prev, next = ~kin->next;

	if (likely(prev == KV_NONE))
		return;
	if (prev & KIN_PARENT)
		family->kin[prev & ~KIN_PARENT].first = kin->next;
	else
		family->kin[prev].next = kin->next;
	if (next != KV_NONE)
		family->kin[next].prev = kin->prev;
	kin->next = kin->prev;
	kin->prev = ~KV_NONE;
}
