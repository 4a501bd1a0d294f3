// SPDX-License-Identifier: Apache-2.0
/* Keys with numbers in them, and prompts of which everybody can see what they have in common. */
#include <string.h>

#include "internal.h"

#define DEFAULT_TOKENS	16u

/* What the bytes of a key mean; the last word says who made it. */
struct key_words {
	uint32_t word[3];
	char tag[4];
};

static const char number_tag[4] = "num", shared_tag[4] = "shr", own_tag[4] = "own";

static kvmm_key_t make_key(const char *tag, uint32_t a, uint32_t b, uint32_t c)
{
	struct key_words words = { .word = { a, b, c } };
	kvmm_key_t key;

	_Static_assert(sizeof(words) == sizeof(key), "words fill a key");
	memcpy(words.tag, tag, sizeof(words.tag));
	memcpy(&key, &words, sizeof(key));
	return key;
}

kvmm_key_t kvmm_testing_key(uint32_t number)
{
	return make_key(number_tag, number, 0, 0);
}

int64_t kvmm_testing_key_number(const kvmm_key_t *key)
{
	struct key_words words;

	memcpy(&words, key, sizeof(words));
	return memcmp(words.tag, number_tag, sizeof(words.tag)) ? -1 : (int64_t)words.word[0];
}

void kvmm_testing_keys(uint32_t first, uint32_t nr, kvmm_key_t *keys)
{
	for (uint32_t i = 0; i < nr; i++)
		keys[i] = kvmm_testing_key(first + i);
}

/* A key stands for all that came before, so the first block of one's own makes all others one's own. */
void kvmm_testing_prompt_keys(const struct kvmm_testing_prompt *prompt, kvmm_key_t *keys)
{
	for (uint32_t i = 0; i < prompt->nr_blocks; i++)
		keys[i] = i < prompt->nr_shared ?
			  make_key(shared_tag, prompt->family, i, 0) :
			  make_key(own_tag, prompt->family, i, prompt->member);
}

/* Any two that differ in family, block, or, behind what is shared, in member, are different. */
static uint32_t token_of(const struct kvmm_testing_prompt *prompt, uint32_t block, uint32_t i)
{
	uint64_t x = (uint64_t)prompt->family << 32 | block;

	if (block >= prompt->nr_shared)
		x ^= ((uint64_t)prompt->member + 1) * 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ull + i;
	return (uint32_t)((x ^ (x >> 29)) * 0x94d049bb133111ebull >> 33);
}

uint32_t kvmm_testing_prompt_tokens(const struct kvmm_testing_prompt *prompt, uint32_t *tokens)
{
	uint32_t block_tokens = prompt->block_tokens ? prompt->block_tokens : DEFAULT_TOKENS;

	for (uint32_t block = 0; block < prompt->nr_blocks; block++)
		for (uint32_t i = 0; i < block_tokens; i++)
			*tokens++ = token_of(prompt, block, i);
	return prompt->nr_blocks * block_tokens;
}
