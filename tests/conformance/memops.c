// SPDX-License-Identifier: Apache-2.0
/* Words that streams write and wait for. */
#include "check.h"

static kcu_deviceptr address_of(u64 *word)
{
	kcu_deviceptr addr;

	must(cu->mem_host_get_device_pointer(&addr, word, 0));
	return addr;
}

static void word_is_written_in_order(void)
{
	kcu_deviceptr addr = device_memory(4096);
	u64 *words = pinned_memory(4096);
	kcu_stream stream = new_stream();

	memset(words, 0, 4096);
	must(cu->memset_d8_async(addr, 0x11, 4096, stream));
	must(cu->stream_write_value64(stream, addr + 8, 0x0123456789abcdefull, 0));
	must(cu->memcpy_dtoh_async(words, addr, 4096, stream));
	must(cu->memset_d8_async(addr, 0, 4096, stream));
	must(cu->stream_synchronize(stream));
	that(words[1] == 0x0123456789abcdefull);
	that(words[0] == 0x1111111111111111ull && words[2] == 0x1111111111111111ull);
}

/* Greater or equal, around the end of 64 bits as well. */
static void stream_waits_until_the_word_is_there(void)
{
	u64 *word = pinned_memory(sizeof(*word));
	kcu_stream stream = new_stream();

	*word = ~0ull - 1;
	must(cu->stream_wait_value64(stream, address_of(word), 3, 0));
	for (u32 i = 0; i < 50; i++)
		that(cu->stream_query(stream) == KCU_E_NOT_READY);
	__atomic_store_n(word, 4, __ATOMIC_SEQ_CST);
	must(cu->stream_synchronize(stream));
}

static void one_stream_lets_another_go(void)
{
	kcu_deviceptr addr = device_memory(4096);
	u64 *word = pinned_memory(sizeof(*word));
	kcu_stream first = new_stream(), second = new_stream();

	*word = 0;
	put_byte(addr, 4096, 1);
	must(cu->stream_wait_value64(second, address_of(word), 7, 1));
	must(cu->memset_d8_async(addr, 3, 4096, second));
	that(cu->stream_query(second) == KCU_E_NOT_READY);
	must(cu->stream_write_value64(first, address_of(word), 7, 0));
	must(cu->stream_synchronize(second));
	must(cu->stream_synchronize(first));
	that(*word == 7 && has_byte(addr, 4096, 3));
}

static void write_of_an_odd_address(void)
{
	answers(cu->stream_write_value64(new_stream(), device_memory(4096) + 4, 1, 0),
		INVALID_VALUE);
}

static void wait_of_an_odd_address(void)
{
	answers(cu->stream_wait_value64(new_stream(), device_memory(4096) + 4, 0, 0),
		INVALID_VALUE);
}

#define CHECK(name)	{ "memops." #name, name, 0, KCU_F_MEMOPS }
const struct check checks_memops[] = {
	CHECK(word_is_written_in_order),
	CHECK(stream_waits_until_the_word_is_there),
	CHECK(one_stream_lets_another_go),
	CHECK(write_of_an_odd_address),
	CHECK(wait_of_an_odd_address),
	{ NULL, NULL, 0, 0 },
};
