// SPDX-License-Identifier: Apache-2.0
/* Strings of JSON: names of files and pools may be any bytes, and what is printed is JSON all the same. */
#include <stdint.h>

#include "json.h"

/* The character at @at, and how many bytes it has; a byte that begins none stands for itself. */
static uint32_t take_char(const unsigned char *at, unsigned int *bytes)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned int nr = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc2 ? 2 : 1;
	uint32_t c = nr == 1 ? *at : *at & (0x7fu >> nr);

	for (unsigned int i = 1; i < nr; i++) {
		if ((at[i] & 0xc0) != 0x80)	/* the end of the text, too */
			nr = 1;
		else
			c = c << 6 | (at[i] & 0x3f);
	}
	*bytes = nr > 1 && c >= least[nr] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? nr : 1;
	return *bytes > 1 ? c : *at;
}

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
