// SPDX-License-Identifier: Apache-2.0
/* What the driver knows about an address. */
#include "internal.h"

struct facts {
	u64 context, id, start, bytes;
	u32 memory_type, handle_types;
	int ordinal, mapped;
};

/* A reservation answers for the mapping that is there, as a real one does. */
static void ask_mapping(struct facts *facts, u64 addr)
{
	struct sw_mapping *mapping = sw_mapping_at(addr);

	facts->mapped = mapping != NULL;
	if (!mapping)
		return;
	facts->start = mapping->span.addr;
	facts->bytes = mapping->span.bytes;
	facts->ordinal = mapping->backing->dev->ordinal;
	facts->memory_type = KCU_MEMORY_DEVICE;
	facts->handle_types = mapping->backing->inode ? KCU_HANDLE_POSIX_FD : KCU_HANDLE_NONE;
}

static struct facts ask(u64 addr)
{
	struct sw_region *region = sw_region_at(addr);
	struct facts facts = { .ordinal = -2 };

	if (!region)
		return facts;
	facts.id = region->id;
	facts.start = region->span.addr;
	facts.bytes = region->span.bytes;
	if (region->kind == SW_RESERVED) {
		ask_mapping(&facts, addr);
		return facts;
	}
	facts.context = region->dev->context;
	facts.ordinal = region->dev->ordinal;
	facts.mapped = 1;
	facts.memory_type = region->kind == SW_ALLOC ? KCU_MEMORY_DEVICE : KCU_MEMORY_HOST;
	return facts;
}

static kcu_result answer(const struct facts *facts, kcu_pointer_attr attr, void *to)
{
	switch (attr) {
	case KCU_POINTER_CONTEXT:
		*(u64 *)to = facts->context;
		return KCU_E_SUCCESS;
	case KCU_POINTER_MEMORY_TYPE:
		*(u32 *)to = facts->memory_type;
		return KCU_E_SUCCESS;
	case KCU_POINTER_BUFFER_ID:
		*(u64 *)to = facts->id;
		return KCU_E_SUCCESS;
	case KCU_POINTER_ORDINAL:
		*(int *)to = facts->ordinal;
		return KCU_E_SUCCESS;
	case KCU_POINTER_RANGE_START:
		*(u64 *)to = facts->start;
		return KCU_E_SUCCESS;
	case KCU_POINTER_RANGE_SIZE:
		*(size_t *)to = facts->bytes;
		return KCU_E_SUCCESS;
	case KCU_POINTER_MAPPED:
		*(bool *)to = facts->mapped;
		return KCU_E_SUCCESS;
	case KCU_POINTER_HANDLE_TYPES:
		*(u32 *)to = facts->handle_types;
		return KCU_E_SUCCESS;
	case KCU_POINTER_SYNC_MEMOPS:
		*(bool *)to = false;
		return KCU_E_SUCCESS;
	default:
		return KCU_E_INVALID_VALUE;
	}
}

/* Memory that the driver has never heard of is no error: its facts are 0. */
static kcu_result get_attributes(unsigned int nr, const kcu_pointer_attr *attrs, void **data,
				 u64 addr)
{
	struct facts facts = ask(addr);

	if (!nr || !attrs || !data)
		return KCU_E_INVALID_VALUE;
	for (unsigned int i = 0; i < nr; i++) {
		kcu_result rc = data[i] ? answer(&facts, attrs[i], data[i]) : KCU_E_INVALID_VALUE;

		if (rc)
			return rc;
	}
	return KCU_E_SUCCESS;
}

/* Asked for one fact only, a driver refuses what it has never heard of. */
static kcu_result get_attribute(void *data, kcu_pointer_attr attr, u64 addr)
{
	return sw_region_at(addr) ? get_attributes(1, &attr, &data, addr) : KCU_E_INVALID_VALUE;
}

kcu_result cuPointerGetAttribute(void *data, kcu_pointer_attr attr, kcu_deviceptr addr)
{
	return SW_RUN(cuPointerGetAttribute, SW_INIT | SW_CTX, get_attribute(data, attr, addr));
}

static kcu_result range(kcu_deviceptr *base, size_t *bytes, u64 addr)
{
	struct facts facts = ask(addr);

	if (!facts.memory_type)
		return KCU_E_NOT_FOUND;
	if (base)
		*base = facts.start;
	if (bytes)
		*bytes = facts.bytes;
	return KCU_E_SUCCESS;
}

kcu_result cuMemGetAddressRange_v2(kcu_deviceptr *base, size_t *bytes, kcu_deviceptr addr)
{
	return SW_RUN(cuMemGetAddressRange_v2, SW_INIT | SW_CTX, range(base, bytes, addr));
}

kcu_result cuPointerGetAttributes(unsigned int nr, kcu_pointer_attr *attrs, void **data,
				  kcu_deviceptr addr)
{
	return SW_RUN(cuPointerGetAttributes, SW_INIT | SW_CTX,
		      get_attributes(nr, attrs, data, addr));
}
