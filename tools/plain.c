// SPDX-License-Identifier: Apache-2.0
/*
 * Text of others on our terminal: engines of another user that root looks at, and files that anybody may have
 * written. A terminal does what it is told, whoever says so.
 */
#include <stdbool.h>
#include <string.h>

#include "plain.h"

uint32_t take_char(const unsigned char *at, unsigned int *bytes)
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

/* The controls of ISO 6429 begin at 0x80; those of direction are among the marks from U+200E on. */
static bool is_plain(uint32_t c, unsigned int bytes)
{
	if (bytes == 1)
		return (c >= 0x20 && c < 0x7f) || c == '\t' || c == '\n';
	return c >= 0xa0 && c != 0x61c && (c < 0x200e || c > 0x200f) && (c < 0x2028 || c > 0x202e) &&
	       (c < 0x2066 || c > 0x2069);
}

void make_plain(char *text, size_t bytes)
{
	unsigned int nr;

	for (size_t i = 0; i < bytes; i += nr) {
		uint32_t c = take_char((const unsigned char *)text + i, &nr);

		if (!is_plain(c, nr))
			memset(text + i, '?', nr);
	}
}

void make_plain_word(char *text)
{
	make_plain(text, strlen(text));
	for (; *text; text++)
		if (*text == '\t' || *text == '\n')
			*text = '?';
}

void put_plain_word(const char *text, FILE *out)
{
	char word[4096];

	snprintf(word, sizeof(word), "%s", text);
	make_plain_word(word);
	fputs(word, out);
}
