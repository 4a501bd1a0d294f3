// SPDX-License-Identifier: Apache-2.0
/* Runs one check: requirements that end it, things it made, patterns, gates. */
#include <setjmp.h>
#include <stdarg.h>

#include "check.h"

#define MAX_AT_END	64u
#define PAGE		4096u

const struct kcu *cu;
kcu_device device;
kcu_context context;
void *driver_library;
bool driver_is_soft;

static struct {
	const struct check *check;
	struct verdict *verdict;
	jmp_buf end;
	struct {
		void (*fn)(u64 arg);
		u64 arg;
	} at_end[MAX_AT_END];
	u32 nr_at_end;
	u64 *gate_words;		/* NULL: no gate in this check so far */
	u32 nr_gates;
} now;

/* ---- verdicts ---- */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void check_fail(const char *file, int line, const char *fmt, ...)
{
	struct verdict *v = now.verdict;
	int len = snprintf(v->text, sizeof(v->text), "%s:%d: ", last_part(file), line);
	va_list args;

	v->outcome = CHECK_FAILED;
	va_start(args, fmt);
	vsnprintf(v->text + len, sizeof(v->text) - len, fmt, args);
	va_end(args);
	longjmp(now.end, 1);
}

void check_skip(const char *why)
{
	now.verdict->outcome = CHECK_SKIPPED;
	snprintf(now.verdict->text, sizeof(now.verdict->text), "%s", why);
	longjmp(now.end, 1);
}

void check_must(const char *file, int line, const char *what, kcu_result result)
{
	if (result)
		check_fail(file, line, "%s: %s (%d)", what, kcu_error_name(result), result);
}

void check_that(const char *file, int line, const char *what, bool good)
{
	if (!good)
		check_fail(file, line, "not so: %s", what);
}

void check_answers(const char *file, int line, const char *what, kcu_result result,
		   kcu_result expected)
{
	struct verdict *v = now.verdict;

	differences_find(now.check->name, &expected);
	v->answered = true;
	v->answer = result;
	v->expected = expected;
	if (result != expected)
		check_fail(file, line, "%s: %s (%d), expected %s (%d)", what,
			   kcu_error_name(result), result, kcu_error_name(expected), expected);
}

void at_end(void (*fn)(u64 arg), u64 arg)
{
	if (now.nr_at_end == MAX_AT_END)
		check_fail(__FILE__, __LINE__, "too many things in one check");
	now.at_end[now.nr_at_end].fn = fn;
	now.at_end[now.nr_at_end++].arg = arg;
}

void check_run(const struct check *check, struct verdict *verdict)
{
	*verdict = (struct verdict){ .outcome = CHECK_OK };
	now.check = check;
	now.verdict = verdict;
	now.gate_words = NULL;
	now.nr_gates = 0;
	if ((cu->features & check->features) != check->features) {
		verdict->outcome = CHECK_SKIPPED;
		snprintf(verdict->text, sizeof(verdict->text), "the driver lacks these calls");
		return;
	}
	if (!setjmp(now.end))
		check->run();
	while (now.nr_at_end) {
		now.nr_at_end--;
		now.at_end[now.nr_at_end].fn(now.at_end[now.nr_at_end].arg);
	}
}

/* ---- things ---- */

static void free_device(u64 addr)
{
	cu->mem_free(addr);
}

static void free_pinned(u64 ptr)
{
	cu->mem_free_host((void *)ptr);
}

static void free_pageable(u64 ptr)
{
	free((void *)ptr);
}

static void end_stream(u64 stream)
{
	cu->stream_synchronize((kcu_stream)stream);
	cu->stream_destroy((kcu_stream)stream);
}

static void end_event(u64 event)
{
	cu->event_destroy((kcu_event)event);
}

kcu_deviceptr device_memory(size_t bytes)
{
	kcu_deviceptr addr = 0;

	must(cu->mem_alloc(&addr, bytes));
	that(addr);
	at_end(free_device, addr);
	return addr;
}

void *pinned_memory(size_t bytes)
{
	void *ptr = NULL;

	must(cu->mem_host_alloc(&ptr, bytes, KCU_HOST_ALLOC_PORTABLE));
	that(ptr);
	at_end(free_pinned, (u64)ptr);
	return ptr;
}

void *pageable_memory(size_t bytes)
{
	void *ptr = NULL;

	that(!posix_memalign(&ptr, PAGE, bytes));
	at_end(free_pageable, (u64)ptr);
	return ptr;
}

kcu_stream new_stream(void)
{
	kcu_stream stream;

	must(cu->stream_create_with_priority(&stream, KCU_STREAM_NON_BLOCKING, 0));
	at_end(end_stream, (u64)stream);
	return stream;
}

kcu_event new_event(u32 flags)
{
	kcu_event event;

	must(cu->event_create(&event, flags));
	at_end(end_event, (u64)event);
	return event;
}

/* ---- gates ---- */

static void open_word(u64 word)
{
	*(volatile u64 *)word = 1;
}

/* All words of a check at once: an allocation may wait for streams, some behind a closed gate. */
static volatile u64 *next_word(void)
{
	if (!(cu->features & KCU_F_MEMOPS))
		check_skip("the driver cannot make a stream wait for memory");
	if (!now.gate_words) {
		now.gate_words = pinned_memory(PAGE);
		memset(now.gate_words, 0, PAGE);
	}
	that(now.nr_gates < PAGE / sizeof(u64));
	return &now.gate_words[now.nr_gates++];
}

/*
 * The stream waits for a word of pinned memory, which no driver can run ahead of. A host function
 * would do as well on a GPU, but the software driver runs those on the thread that asks.
 */
struct gate closed_gate(kcu_stream stream)
{
	struct gate gate = { next_word() };
	kcu_deviceptr addr;
	kcu_result result;

	must(cu->mem_host_get_device_pointer(&addr, (void *)gate.word, 0));
	result = cu->stream_wait_value64(stream, addr, 1, 0);
	if (kcu_class_of(result) == KCU_UNSUPPORTED)
		check_skip("the device cannot make a stream wait for memory");
	must(result);
	at_end(open_word, (u64)gate.word);
	return gate;
}

void open_gate(struct gate gate)
{
	__atomic_store_n(gate.word, 1, __ATOMIC_SEQ_CST);
}

/* ---- bytes ---- */

static u64 mix(u64 x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static u8 byte_of(u64 seed, size_t i)
{
	return mix(seed * 0x1000003u + i / 8) >> i % 8 * 8;
}

void fill_pattern(void *buf, size_t bytes, u64 seed)
{
	for (size_t i = 0; i < bytes; i++)
		((u8 *)buf)[i] = byte_of(seed, i);
}

bool is_pattern(const void *buf, size_t bytes, u64 seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (((const u8 *)buf)[i] != byte_of(seed, i))
			return false;
	return true;
}

bool is_byte(const void *buf, size_t bytes, u8 byte)
{
	for (size_t i = 0; i < bytes; i++)
		if (((const u8 *)buf)[i] != byte)
			return false;
	return true;
}

/* A stream of its own: what a check does to its streams must not matter here. */
static kcu_stream begin_transfer(void)
{
	kcu_stream stream;

	must(cu->stream_create_with_priority(&stream, KCU_STREAM_NON_BLOCKING, 0));
	return stream;
}

static void finish_transfer(kcu_stream stream, kcu_result result)
{
	if (!result)
		result = cu->stream_synchronize(stream);
	cu->stream_destroy(stream);
	must(result);
}

void put(kcu_deviceptr addr, const void *buf, size_t bytes)
{
	kcu_stream stream = begin_transfer();

	finish_transfer(stream, cu->memcpy_htod_async(addr, buf, bytes, stream));
}

void get(void *buf, kcu_deviceptr addr, size_t bytes)
{
	kcu_stream stream = begin_transfer();

	finish_transfer(stream, cu->memcpy_dtoh_async(buf, addr, bytes, stream));
}

void put_pattern(kcu_deviceptr addr, size_t bytes, u64 seed)
{
	void *buf = pageable_memory(bytes);

	fill_pattern(buf, bytes, seed);
	put(addr, buf, bytes);
}

void put_byte(kcu_deviceptr addr, size_t bytes, u8 byte)
{
	void *buf = pageable_memory(bytes);

	memset(buf, byte, bytes);
	put(addr, buf, bytes);
}

/* The buffer holds something else before: a copy that does nothing is noticed. */
static void *fetch(kcu_deviceptr addr, size_t bytes)
{
	void *buf = pageable_memory(bytes);

	fill_pattern(buf, bytes, ~0u);
	get(buf, addr, bytes);
	return buf;
}

bool has_pattern(kcu_deviceptr addr, size_t bytes, u64 seed)
{
	return is_pattern(fetch(addr, bytes), bytes, seed);
}

bool has_byte(kcu_deviceptr addr, size_t bytes, u8 byte)
{
	return is_byte(fetch(addr, bytes), bytes, byte);
}

int device_attribute(kcu_device_attr attr)
{
	int value = -1;

	must(cu->device_get_attribute(&value, attr, device));
	return value;
}
