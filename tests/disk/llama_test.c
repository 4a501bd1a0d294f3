// SPDX-License-Identifier: Apache-2.0
/* samples/llama_state.c over a model that knows its tokens: what it computes, and what it finds. */
#include <fcntl.h>
#include <unistd.h>

int sample_main(int argc, char **argv);

#define main sample_main
#include "samples/llama_state.c"
#undef main

#include "tests/support/test.h"

#define BLOCKS(nr)	((nr) * BLOCK_TOKENS)

static char folder[32], model[64], text[FAKE_TOKENS];

static void set_up(void)
{
	FILE *file;

	snprintf(folder, sizeof(folder), "/tmp/kvmm-llama-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(model, sizeof(model), "%s/model", folder);
	file = fopen(model, "w");
	cr_assert_not_null(file);
	fclose(file);
	for (u32 i = 0; i < sizeof(text); i++)
		text[i] = 'a' + i * i % 23;
}

static void tear_down(void)
{
	char store[80];

	snprintf(store, sizeof(store), "%s/kv/store", folder);
	unlink(store);
	snprintf(store, sizeof(store), "%s/kv", folder);
	rmdir(store);
	unlink(model);
	rmdir(folder);
}

TestSuite(llama_state, .init = set_up, .fini = tear_down);

/* How many tokens the model has computed for the first @nr letters of the text. */
static u32 computed_of(u32 nr)
{
	char prompt[FAKE_TOKENS + 1] = "", store[80];
	char *argv[] = { "llama_state", model, store, prompt, NULL };

	snprintf(store, sizeof(store), "%s/kv", folder);
	memcpy(prompt, text, nr);
	cr_assert_eq(sample_main(4, argv), 0);
	cr_expect_eq(fake_context.nr, nr);
	for (u32 i = 0; i < nr; i++)
		cr_assert_eq(fake_context.tokens[i], text[i], "token %u", i);
	return fake_context.nr_decoded;
}

Test(llama_state, of_a_prompt_that_was_there_before_only_the_tail_is_computed)
{
	cr_expect_eq(computed_of(BLOCKS(5) + 10), BLOCKS(5) + 10);
	cr_expect_eq(computed_of(BLOCKS(5) + 10), 10);
	cr_expect_eq(computed_of(BLOCKS(7) + 1), BLOCKS(2) + 1, "it goes on from there");
	cr_expect_eq(computed_of(BLOCKS(7) + 5), 5);
}

Test(llama_state, of_a_prompt_of_whole_blocks_the_last_one_is_computed)
{
	cr_expect_eq(computed_of(BLOCKS(3)), BLOCKS(3));
	cr_expect_eq(computed_of(BLOCKS(3)), BLOCKS(1));
	cr_expect_eq(computed_of(1), 1);
}

Test(llama_state, of_another_prompt_or_another_model_nothing_is_found)
{
	FILE *file;

	cr_expect_eq(computed_of(BLOCKS(2) + 1), BLOCKS(2) + 1);
	text[0]++;
	cr_expect_eq(computed_of(BLOCKS(2) + 1), BLOCKS(2) + 1);
	cr_expect_eq(computed_of(BLOCKS(2) + 1), 1);
	file = fopen(model, "w");
	cr_assert_not_null(file);
	fputs("another", file);
	fclose(file);
	cr_expect_eq(computed_of(BLOCKS(2) + 1), BLOCKS(2) + 1);
}

Test(llama_state, the_tokens_that_follow_are_those_without_a_store)
{
	char store[80], want[2 * BLOCK_TOKENS + 4] = "";
	char *argv[] = { "llama_state", model, store, want, "3", NULL };
	u32 sum = 0;

	snprintf(store, sizeof(store), "%s/kv", folder);
	memcpy(want, text, BLOCKS(2) + 1);
	for (u32 i = 0; want[i]; i++)
		sum += want[i];
	for (u32 round = 0; round < 2; round++) {
		cr_assert_eq(sample_main(5, argv), 0);
		cr_expect_eq(fake_context.nr_decoded, round ? 4 : BLOCKS(2) + 4);
		for (u32 i = 0, next = sum; i < 3; i++, next *= 2)
			cr_expect_eq(fake_context.tokens[BLOCKS(2) + 1 + i], next % FAKE_VOCAB);
	}
}

/* Of the records of a state, the last one that is read. */
Test(llama_state, a_state_that_is_not_whole_is_computed_again)
{
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;
	struct kvmm_disk_delete_args gone;
	static struct state s;
	char store[80];

	cr_expect_eq(computed_of(BLOCKS(6) + 1), BLOCKS(6) + 1);
	snprintf(store, sizeof(store), "%s/kv", folder);
	for (s.nr = 0; s.nr < BLOCKS(6) + 1; s.nr++)
		s.tokens[s.nr] = text[s.nr];
	cr_assert_eq(make_keys(&s, model), 0);
	gone.name = name_of(&s.keys[5], BLOCKS(6) * FAKE_TOKEN_BYTES / PIECE);
	attr.path = store;
	cr_assert_eq(kvmm_disk_open(&attr, &s.disk), 0);
	cr_assert_eq(kvmm_disk_delete(s.disk, &gone, 1), 1);
	kvmm_disk_close(s.disk);
	cr_expect_eq(computed_of(BLOCKS(6) + 1), BLOCKS(6) + 1);
}
