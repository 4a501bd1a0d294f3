// SPDX-License-Identifier: Apache-2.0
/*
 * Messages and reports. Reports are counted by kind; the first SW_MAX_REPORTS are kept as text.
 * They have a lock of their own: host functions report as well.
 */
#include <stdarg.h>

#include "internal.h"

static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;
static char texts[SW_MAX_REPORTS][SW_REPORT_BYTES];	/* report_lock */
static u32 nr_texts;					/* report_lock */
static u32 nr_by_kind[SW_NR_REPORT_KINDS];		/* report_lock */

static const char *const kind_name[SW_NR_REPORT_KINDS] = {
	"race", "in use", "illegal access", "deadlock", "misuse",
};

void sw_log(const char *fmt, ...)
{
	char line[SW_REPORT_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (sw.log)
		sw.log(sw.log_arg, line);
	else
		fprintf(stderr, "swcuda: %s\n", line);
}

void sw_report(enum sw_report_kind kind, const char *fmt, ...)
{
	va_list args;

	pthread_mutex_lock(&report_lock);
	nr_by_kind[kind]++;
	if (nr_texts < SW_MAX_REPORTS) {
		char *text = texts[nr_texts];
		int n = snprintf(text, SW_REPORT_BYTES, "%s: ", kind_name[kind]);

		va_start(args, fmt);
		vsnprintf(text + n, SW_REPORT_BYTES - n, fmt, args);
		va_end(args);
		nr_texts++;
	}
	pthread_mutex_unlock(&report_lock);
}

u32 sw_nr_reports(enum sw_report_kind kind)
{
	u32 nr;

	if (kind >= SW_NR_REPORT_KINDS)
		return 0;
	pthread_mutex_lock(&report_lock);
	nr = nr_by_kind[kind];
	pthread_mutex_unlock(&report_lock);
	return nr;
}

const char *sw_report_text(u32 nr)
{
	const char *text;

	pthread_mutex_lock(&report_lock);
	text = nr < nr_texts ? texts[nr] : NULL;
	pthread_mutex_unlock(&report_lock);
	return text;
}

void sw_reports_clear(void)
{
	pthread_mutex_lock(&report_lock);
	memset(nr_by_kind, 0, sizeof(nr_by_kind));
	nr_texts = 0;
	pthread_mutex_unlock(&report_lock);
}
