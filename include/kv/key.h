/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on a context for users of keys. */
#ifndef KV_KEY_H
#define KV_KEY_H

#include <kv/types.h>
#include <kvmm/key.h>

/* Tokens of each block that it names. */
u32 kv_key_block_tokens(const struct kvmm_key_ctx *ctx);
/* Does its chain need all of a digest? */
bool kv_key_has_digests(const struct kvmm_key_ctx *ctx);

/* Are they sound, in order, and none of a kind on top of another? 0; -EINVAL. */
int kv_key_check_extras(const struct kvmm_key_extra *extras, size_t nr);

/* The name of algorithm @i, or NULL: there are not so many. */
const char *kv_key_algo(u32 i);

#endif /* KV_KEY_H */
