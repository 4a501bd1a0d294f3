// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include <kv/buf.h>
#include <kv/entry.h>

#include "internal.h"

#define MAGIC		0xa6c61766d6d766bull	/* "kvmmval\n" */
#define VERSION		2u

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are sent as they lie");

u32 remote_key(const char *model, u64 epoch, const struct kv_tier_name *name, char *key)
{
	struct kv_buf buf = { key, REMOTE_KEY, 0 };

	kv_buf_printf(&buf, "kvmm:%s:%llx:%u:%016llx:%04x%04x:", model, (unsigned long long)epoch,
		      name->domain.tenant, (unsigned long long)name->layout, name->domain.layout,
		      name->domain.group);
	for (u32 i = 0; i < KVMM_KEY_BYTES; i++)
		kv_buf_printf(&buf, "%02x", name->key.byte[i]);
	kv_assert(buf.len < REMOTE_KEY);
	return (u32)buf.len;
}

u32 remote_word_key(const char *model, char *key)
{
	struct kv_buf buf = { key, REMOTE_KEY, 0 };

	kv_buf_printf(&buf, "kvmm:%s:epoch", model);
	return (u32)buf.len;
}

u32 remote_new_key(const char *model, u64 number, char *key)
{
	struct kv_buf buf = { key, REMOTE_KEY, 0 };

	kv_buf_printf(&buf, "kvmm:%s:new:%016llx", model, (unsigned long long)number);
	return (u32)buf.len;
}

void remote_value_fill(struct remote_value *value, const char *model, u64 epoch,
		       const struct kv_tier_io *io, u64 sum)
{
	*value = (struct remote_value){
		.magic = MAGIC, .version = VERSION, .bytes = (u32)io->bytes, .sum = sum,
		.model = kv_disk_sum(model, strlen(model)), .epoch = epoch,
		.layout = io->name.layout, .domain = kv_domain_word(io->name.domain),
		.position = io->name.position, .has_parent = io->name.has_parent,
	};
	memcpy(value->key, io->name.key.byte, KVMM_KEY_BYTES);
	if (io->name.has_parent)
		memcpy(value->parent, io->name.parent.byte, KVMM_KEY_BYTES);
	kv_disk_seal(value);
}

/* Parent and position are not part of a name: they stand there for people that list a server. */
bool remote_value_is_good(const struct remote_value *value, const char *model, u64 epoch,
			  const struct kv_tier_io *io)
{
	return value->magic == MAGIC && value->version == VERSION && kv_disk_is_sealed(value) &&
	       value->bytes == io->bytes && value->epoch == epoch &&
	       value->model == kv_disk_sum(model, strlen(model)) &&
	       value->layout == io->name.layout &&
	       value->domain == kv_domain_word(io->name.domain) &&
	       !memcmp(value->key, io->name.key.byte, KVMM_KEY_BYTES);
}
