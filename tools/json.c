// SPDX-License-Identifier: Apache-2.0
/* Strings of JSON: names of files and pools may be any bytes, and what is printed is JSON all the same. */
#include <stdint.h>

#include "json.h"
#include "plain.h"

void json_string(const char *text, FILE *out)
{
	const unsigned char *at = (const unsigned char *)text;
	unsigned int bytes;

	putc('"', out);
	for (; *at; at += bytes) {
		uint32_t c = take_char(at, &bytes);

		/* '<' too: this also goes into a script element. */
		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", (int)c);
		else if (c > 0xffff)
			fprintf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
		else if (c < 0x20 || c == '<' || c >= 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			putc((int)c, out);
	}
	putc('"', out);
}
