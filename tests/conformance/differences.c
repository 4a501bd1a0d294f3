// SPDX-License-Identifier: Apache-2.0
/*
 * Reads differences.txt: which driver answers which check differently, and that this is known.
 * The file is taken into the program by the assembler; another one may be given instead.
 */
#include <errno.h>

#include "check.h"

extern const char conformance_differences[];

__asm__(".pushsection .rodata\n"
	".globl conformance_differences\n"
	"conformance_differences:\n"
	".incbin \"differences.txt\"\n"
	".byte 0\n"
	".popsection\n");

#define MAX_DIFFERENCES	128u
#define MAX_TEXT	65536u

static struct difference {
	char check[80];
	kcu_result code;
} known[MAX_DIFFERENCES];

static u32 nr_known;

int differences_find(const char *check, kcu_result *code)
{
	for (u32 i = 0; i < nr_known; i++) {
		if (strcmp(known[i].check, check))
			continue;
		*code = known[i].code;
		return 0;
	}
	return -ENOENT;
}

static void add_line(const char *line)
{
	struct difference *next = &known[nr_known];
	char driver[16];
	int code;

	if (*line == '#' || sscanf(line, "%79s %15s %d", next->check, driver, &code) != 3)
		return;
	if (strcmp(driver, driver_is_soft ? "swcuda" : "cuda") || nr_known + 1 == MAX_DIFFERENCES)
		return;
	next->code = code;
	nr_known++;
}

static void add_text(const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		char line[256];

		snprintf(line, sizeof(line), "%.*s", (int)len, text);
		add_line(line);
		text += len + (text[len] == '\n');
	}
}

int differences_read(const char *path)
{
	static char text[MAX_TEXT];
	FILE *file;

	if (!path) {
		add_text(conformance_differences);
		return 0;
	}
	file = fopen(path, "r");
	if (!file)
		return -errno;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	add_text(text);
	return 0;
}
