/* SPDX-License-Identifier: Apache-2.0 */
/* Names of policies, as users write them: "lru", "multilru:3,8,15", "lru,multilru:3,8,15,slru". */
#ifndef REPLAY_POLICIES_H
#define REPLAY_POLICIES_H

#include "common.h"

#define MAX_POLICIES	48
#define POLICY_BYTES	64

/* A list; no name is in it twice. */
struct policies {
	char name[MAX_POLICIES][POLICY_BYTES];
	u32 nr;
};

/**
 * policies_parse() - read a list
 *
 * Commas part names, but where a digit follows they part the parameters of one name.
 *
 * Return: 0; -EINVAL an empty or overlong name; -E2BIG too many.
 */
int policies_parse(struct policies *policies, const char *list);

/** policies_add() - Return: 0, also if it is there; -EINVAL overlong or empty; -E2BIG. */
int policies_add(struct policies *policies, const char *name, size_t length);

/** policies_add_all() - those of the library, but for the one that does nothing without hints */
int policies_add_all(struct policies *policies);

/** policy_check() - does the library have it? Return: 0; -ENOENT no; -EINVAL not so. */
int policy_check(const char *name);

/** policy_list() - what there is, for messages */
void policy_list(char *text, size_t bytes);

#endif /* REPLAY_POLICIES_H */
