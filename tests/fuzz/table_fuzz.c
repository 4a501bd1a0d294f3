// SPDX-License-Identifier: Apache-2.0
/*
 * Any text as a table of a control socket: it is one, or refused; printing it reads nothing beside it, and
 * as many rows and columns come out as there were lines and tabs.
 */
#include "tests/fuzz/require.h"
#include "tools/client/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);
	size_t nr_lines = 0, nr_tabs = 0;
	struct table table;
	FILE *out;

	memcpy(text, data, bytes);
	text[bytes] = '\0';
	for (const char *c = text; *c; c++) {
		nr_lines += *c == '\n' || !c[1];
		nr_tabs += *c == '\t';
	}
	if (!table_parse(&table, text)) {
		if (table.nr_rows + 1 != nr_lines ||
		    (table.nr_columns - 1) * nr_lines != nr_tabs)
			abort();
		out = fopen("/dev/null", "w");
		table_print(&table, out);
		table_print_json(&table, out);
		fclose(out);
		for (size_t row = 0; row <= table.nr_rows; row++)
			table_number(&table, row, "free");
		table_free(&table);
	}
	free(text);
	return 0;
}
