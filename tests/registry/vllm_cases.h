/* SPDX-License-Identifier: Apache-2.0 */
/* The request that vllm_golden.py asks vLLM about; each case has some of it. */
#ifndef TESTS_REGISTRY_VLLM_CASES_H
#define TESTS_REGISTRY_VLLM_CASES_H

#include <kvmm/key.h>

#include "tests/registry/vllm_golden.h"
#include "tests/support/test.h"

/* One number on either side of each border of the encoding, then 1 to 8; then 100 to 131. */
static const u32 vllm_tokens[48] = {
	0, 23, 24, 255, 256, 65535, 65536, 4294967295, 1, 2, 3, 4, 5, 6, 7, 8,
	100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115,
	116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131,
};

static const u8 vllm_embeds[3][32] = {
	{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 },
	{ [0 ... 31] = 16 }, { [0 ... 31] = 32 },
};

/* Two images, then the embeddings of three blocks. */
static const struct kvmm_key_extra vllm_extras[] = {
	{ KVMM_KEY_MM, 5, "img-1", 5, 20 }, { KVMM_KEY_MM, 7, "bild-\xc3\xa4", 31, 9 },
	{ KVMM_KEY_EMBEDS, 32, vllm_embeds[0], 0, 16 },
	{ KVMM_KEY_EMBEDS, 32, vllm_embeds[1], 16, 16 },
	{ KVMM_KEY_EMBEDS, 32, vllm_embeds[2], 32, 16 },
};

static inline const struct vllm_golden *vllm_case(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(vllm_golden); i++)
		if (!strcmp(vllm_golden[i].name, name))
			return &vllm_golden[i];
	cr_assert_fail("there is no %s", name);
	return NULL;
}

#endif /* TESTS_REGISTRY_VLLM_CASES_H */
