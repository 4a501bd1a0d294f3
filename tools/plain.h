/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_PLAIN_H
#define TOOLS_PLAIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The character at @at, in a text that ends with a NUL, and how many bytes it has; a byte that begins none
 * stands for itself.
 */
uint32_t take_char(const unsigned char *at, unsigned int *bytes);

/*
 * Whatever is no character to be seen, nor a tab or the end of a line, becomes '?'s: bytes that are no UTF-8,
 * what a terminal acts on, what turns the order of the others. A NUL stands behind the @bytes.
 */
void make_plain(char *text, size_t bytes);

/* Part of a line, as the name of a file is: tabs and ends of lines become '?' as well. */
void make_plain_word(char *text);

/* The same of a text that stays as it is. */
void put_plain_word(const char *text, FILE *out);

#endif /* TOOLS_PLAIN_H */
