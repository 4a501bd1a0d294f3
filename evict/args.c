// SPDX-License-Identifier: Apache-2.0
/* Numbers from text, without a libc that knows locales. */
#include <errno.h>

#include <kv/types.h>

#include "args.h"

/* The number that @args begins with, and in @args the rest; above @limit: none does. */
static u64 take_number(const char **args, u32 limit)
{
	const char *at = *args;
	u64 number = 0;

	for (; *at >= '0' && *at <= '9' && number <= limit; at++)
		number = number * 10 + (u32)(*at - '0');
	if (at == *args)
		return (u64)limit + 1;
	*args = at;
	return number;
}

int args_numbers(const char *args, u32 *numbers, u32 nr, u32 limit)
{
	for (u32 i = 0; i < nr; i++) {
		u64 number;

		if (i && *args++ != ',')
			return -EINVAL;
		number = take_number(&args, limit);
		if (number > limit)
			return -EINVAL;
		numbers[i] = number;
	}
	return *args ? -EINVAL : 0;
}
