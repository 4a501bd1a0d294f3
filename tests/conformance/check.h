/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checks of a CUDA driver share.
 *
 * A check is a function without arguments. It ends early where a requirement does not hold; what
 * it made on the way is given back by the suite, last things first. Whatever a call does is seen
 * by its effect on memory, never by its return code alone.
 */
#ifndef CONFORMANCE_CHECK_H
#define CONFORMANCE_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/kcu.h>

enum check_flag {
	CHECK_ISOLATED	= BIT(0),	/* may end the process or lose the device: own process */
	CHECK_SLOW	= BIT(1),	/* not with --quick */
};

struct check {
	const char *name;		/* "group.what_is_so"; NULL ends a list */
	void (*run)(void);
	u32 flags;			/* enum check_flag */
	u32 features;			/* enum kcu_feature: skipped where one is missing */
};

extern const struct check checks_start[], checks_context[], checks_memory[], checks_host[],
	checks_copy[], checks_stream[], checks_event[], checks_kernel[], checks_capture[],
	checks_vmm[], checks_share[], checks_batch[], checks_peer[], checks_memops[],
	checks_fatal[], checks_suite[];

/* The driver under test and its first device; set before the first check. */
extern const struct kcu *cu;
extern kcu_device device;
extern kcu_context context;		/* current whenever a check starts */
extern void *driver_library;		/* for what the table does not have */
extern bool driver_is_soft;		/* the software driver of this project */

/* ---- what a check says ---- */

void __attribute__((noreturn)) check_fail(const char *file, int line, const char *fmt, ...)
	__printf(3, 4);
void __attribute__((noreturn)) check_skip(const char *why);
void check_must(const char *file, int line, const char *what, kcu_result result);
void check_answers(const char *file, int line, const char *what, kcu_result result,
		   kcu_result expected);
void check_that(const char *file, int line, const char *what, bool good);

/* The call succeeds, or the check has failed. */
#define must(call)		check_must(__FILE__, __LINE__, #call, call)

/*
 * The call answers with that code, or with the one that differences.txt has for this driver. At
 * most once in a check: the name of the check is the name of the answer.
 */
#define answers(call, code)	check_answers(__FILE__, __LINE__, #call, call, KCU_E_##code)

#define that(condition)		check_that(__FILE__, __LINE__, #condition, condition)

/* ---- things that last as long as the check ---- */

void at_end(void (*fn)(u64 arg), u64 arg);	/* called in reverse order */

kcu_deviceptr device_memory(size_t bytes);
void *pinned_memory(size_t bytes);
void *pageable_memory(size_t bytes);		/* aligned to a page */
kcu_stream new_stream(void);
kcu_event new_event(u32 flags);

/* Device work behind it on the stream does not start before the gate is opened. */
struct gate {
	volatile u64 *word;
};

struct gate closed_gate(kcu_stream stream);	/* the check is skipped if there cannot be one */
void open_gate(struct gate gate);

/* ---- bytes that differ everywhere ---- */

void fill_pattern(void *buf, size_t bytes, u64 seed);
bool is_pattern(const void *buf, size_t bytes, u64 seed);
bool is_byte(const void *buf, size_t bytes, u8 byte);

/* ---- device memory as seen from the host: complete on return ---- */

void put(kcu_deviceptr addr, const void *buf, size_t bytes);
void get(void *buf, kcu_deviceptr addr, size_t bytes);
void put_pattern(kcu_deviceptr addr, size_t bytes, u64 seed);
void put_byte(kcu_deviceptr addr, size_t bytes, u8 byte);
bool has_pattern(kcu_deviceptr addr, size_t bytes, u64 seed);
bool has_byte(kcu_deviceptr addr, size_t bytes, u8 byte);

int device_attribute(kcu_device_attr attr);

/* By a kernel, which sees addresses as the device does; a multiple of 16. The wait's result. */
kcu_result kernel_copy(kcu_deviceptr dst, kcu_deviceptr src, u32 bytes);

/* ---- the suite ---- */

enum outcome { CHECK_OK, CHECK_FAILED, CHECK_SKIPPED };

struct verdict {
	enum outcome outcome;
	bool answered;			/* answer and expected are valid */
	kcu_result answer, expected;
	char text[256];			/* why not */
};

void check_run(const struct check *check, struct verdict *verdict);
int differences_find(const char *check, kcu_result *code);	/* 0, or -ENOENT */
int differences_read(const char *path);				/* NULL: those built in */

#endif /* CONFORMANCE_CHECK_H */
