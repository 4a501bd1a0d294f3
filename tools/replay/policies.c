// SPDX-License-Identifier: Apache-2.0
/* Which names there are, and what they may look like, is up to the library: it is asked. */
#include <stdio.h>
#include <string.h>

#include <kvmm/kvmm.h>

#include "policies.h"

int policies_add(struct policies *policies, const char *name, size_t length)
{
	if (!length || length >= POLICY_BYTES)
		return -EINVAL;
	for (u32 i = 0; i < policies->nr; i++)
		if (strlen(policies->name[i]) == length &&
		    !memcmp(policies->name[i], name, length))
			return 0;
	if (policies->nr == MAX_POLICIES)
		return -E2BIG;
	memcpy(policies->name[policies->nr], name, length);
	policies->name[policies->nr++][length] = '\0';
	return 0;
}

/* Length of the first name in @list. */
static size_t name_length(const char *list)
{
	size_t n = strcspn(list, ",");

	while (list[n] && list[n + 1] >= '0' && list[n + 1] <= '9')
		n += 1 + strcspn(list + n + 1, ",");
	return n;
}

int policies_parse(struct policies *policies, const char *list)
{
	for (;;) {
		size_t n = name_length(list);
		int err = policies_add(policies, list, n);

		if (err || !list[n])
			return err;
		list += n + 1;
	}
}

int policies_add_all(struct policies *policies)
{
	const char *names[MAX_POLICIES];
	unsigned int nr = kvmm_policies(names, MAX_POLICIES);
	int err = nr > MAX_POLICIES ? -E2BIG : 0;

	for (unsigned int i = 0; !err && i < nr; i++)
		if (strcmp(names[i], "hint"))
			err = policies_add(policies, names[i], strlen(names[i]));
	return err;
}

int policy_check(const char *name)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .policy = name, .compactor = "off",
				       .nr_blocks = 64 };
	struct kvmm_pool *pool = NULL;
	int err = kvmm_pool_create(&attr, &pool);

	if (!err)
		kvmm_pool_destroy(pool);
	return err == -ENOENT || err == -EINVAL ? err : 0;	/* the run will say the rest */
}

void policy_list(char *text, size_t bytes)
{
	const char *names[MAX_POLICIES];
	unsigned int nr = (unsigned int)min_u64(kvmm_policies(names, MAX_POLICIES), MAX_POLICIES);

	*text = '\0';
	for (unsigned int i = 0; i < nr; i++) {
		strncat(text, names[i], bytes - strlen(text) - 1);
		strncat(text, ", ", bytes - strlen(text) - 1);
	}
	strncat(text, "min, bound, infinite", bytes - strlen(text) - 1);
}
