/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdio.h>

/* @text as a string of JSON, in ASCII, fit for a script element; bytes that are no UTF-8 are Latin-1. */
void json_string(const char *text, FILE *out);

#endif /* TOOLS_JSON_H */
