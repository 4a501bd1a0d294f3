// SPDX-License-Identifier: Apache-2.0
/* Text that grows: up to its limit and not beyond, and cells of tables that nothing in them can end. */
#include "ctl/text.h"
#include "tests/support/fake_env.h"
#include "tests/support/test.h"

static struct kv_text text;

static void tear_down(void)
{
	kv_text_exit(&text);
	cr_expect_eq(kv_mem_bytes(), 0);
}

TestSuite(text, .fini = tear_down);

static const char *word(const char *string)
{
	static char got[64];

	kv_text_init(&text, 4096);
	kv_text_word(&text, string);
	cr_assert_eq(text.err, 0);
	memcpy(got, text.buf, text.len);
	got[text.len] = '\0';
	kv_text_exit(&text);
	return got;
}

Test(text, a_cell_is_one_cell_whatever_is_in_it)
{
	cr_expect_str_eq(word("plain"), "plain");
	cr_expect_str_eq(word(""), "-");
	cr_expect_str_eq(word("a\tb\nc d"), "a\\x09b\\x0ac\\x20d");
	cr_expect_str_eq(word("\x7f"), "\\x7f");
	cr_expect_str_eq(word("\\x41"), "\\x5cx41", "and can be read back");
	cr_expect_str_eq(word("\n"), "\\x0a");
	cr_expect_str_eq(word("\xc3\xa9"), "\xc3\xa9");
}

Test(text, as_much_as_there_may_be_and_no_more)
{
	char bytes[1024];

	memset(bytes, 'x', sizeof(bytes));
	kv_text_init(&text, 1024);
	for (u32 i = 0; i < 1024; i += 64)
		kv_text_bytes(&text, bytes, 64);
	cr_expect_eq(text.err, 0);
	cr_expect_eq(text.len, 1024);
	cr_expect_eq(memcmp(text.buf, bytes, 1024), 0);
	kv_text_bytes(&text, "y", 1);
	cr_expect_eq(text.err, -EFBIG);
	cr_expect_eq(text.len, 1024);
	kv_text_exit(&text);
	cr_expect_eq(text.err, 0);
	text.max = 700;			/* not a power of two */
	kv_text_bytes(&text, bytes, 700);
	cr_expect_eq(text.err, 0);
	cr_expect_eq(text.len, 700);
}

/* What does not fit is not written, and neither is what would fit behind it. */
Test(text, an_error_is_the_end)
{
	char bytes[1024];

	memset(bytes, 'x', sizeof(bytes));
	kv_text_init(&text, 600);
	kv_text_puts(&text, "before");
	kv_text_bytes(&text, bytes, sizeof(bytes));
	kv_text_puts(&text, "behind");
	cr_expect_eq(text.err, -EFBIG);
	cr_expect_eq(text.len, strlen("before"));
}

/* vsnprintf() ends with a byte that is not counted: there has to be room for it. */
Test(text, the_end_of_what_is_printed_is_inside)
{
	char bytes[512];

	memset(bytes, 'x', sizeof(bytes));
	kv_text_init(&text, 4096);
	kv_text_bytes(&text, bytes, 511);
	kv_text_printf(&text, "%c", 'y');
	cr_expect_eq(text.len, 512);
	cr_expect_gt(text.room, 512);
	cr_expect_eq(text.buf[511], 'y');
}

Test(text, want_of_memory_is_said)
{
	struct fake_env fake;

	fake_env_install(&fake);
	kv_text_init(&text, 4096);
	fake_env_fail(&fake, 1, false);
	kv_text_printf(&text, "%d", 7);
	cr_expect_eq(text.err, -ENOMEM);
	cr_expect_eq(text.len, 0);
	kv_text_exit(&text);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}
