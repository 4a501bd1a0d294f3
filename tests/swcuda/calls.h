/* SPDX-License-Identifier: Apache-2.0 */
/* What a test asks of the software driver when it makes each of its calls fail. */
#ifndef TESTS_SWCUDA_CALLS_H
#define TESTS_SWCUDA_CALLS_H

#include "tests/support/test.h"
#include "tests/swcuda/driver.h"

static inline u64 nr_calls(void)
{
	u64 nr = 0;

#define ADD(field, name, type, version)	nr += ctl->calls(#name);
	KCU_ALL(ADD)
#undef ADD
	return nr;
}

/* Of all reports those that say that the library was wrong; @nth, @code: the call that failed. */
static inline void expect_no_races(u32 nth, int code)
{
	for (u32 i = 0; i < SW_NR_REPORT_KINDS; i++)
		if (i == SW_REPORT_RACE || i == SW_REPORT_IN_USE || i == SW_REPORT_DEADLOCK)
			cr_expect_eq(ctl->nr_reports(i), 0, "call %u, code %d: %s", nth, code,
				     ctl->report(0));
}

#endif /* TESTS_SWCUDA_CALLS_H */
