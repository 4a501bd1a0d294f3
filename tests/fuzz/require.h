/* SPDX-License-Identifier: Apache-2.0 */
/* What every fuzzer has: its entry, and how it fails. */
#ifndef FUZZ_REQUIRE_H
#define FUZZ_REQUIRE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define require(holds)								\
	do {									\
		if (!(holds)) {							\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds);	\
			abort();						\
		}								\
	} while (0)

#endif /* FUZZ_REQUIRE_H */
