/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that tests turn by hand.
 *
 *	struct fake_env fake;
 *
 *	fake_env_install(&fake);		// kv_env() is the fake from here on
 *	fake_env_fail(&fake, 3, false);		// the third allocation from now fails, once
 *	...
 *	cr_expect_eq(fake.nr_live, 0);		// everything was given back
 *	fake_env_remove(&fake);
 *
 * The usual loop: make the n-th allocation fail, n = 1, 2, ..., until the call under test
 * succeeds without fake_env_failed() becoming true; nothing may be left behind each time.
 *
 * Freed memory is overwritten with FAKE_ENV_POISON; frees of what was not allocated, or with
 * another size, are counted in nr_bad_frees and otherwise ignored. Time begins at KVMM_CLOCK_START
 * (0) and stands still but for fake_env_advance() and for waiting, which takes exactly the time-out.
 * Random numbers are the same in each run. Any number of threads may use it; one changes the settings.
 */
#ifndef FAKE_ENV_H
#define FAKE_ENV_H

#include <kv/env.h>
#include <kv/types.h>

#define FAKE_ENV_POISON		0xdb
#define FAKE_ENV_LINE		256

struct fake_env {
	struct kv_env_ops ops;

	/* Atomic; a test reads them when its threads are done. */
	u64 nr_allocs;		/* tried so far, failed ones included */
	u64 nr_live;
	u64 live_bytes;		/* as asked for by the library */
	u64 nr_bad_frees;
	u64 nr_failed;		/* allocations refused on purpose */
	u64 nr_waits;
	u64 nr_wakes;
	u64 now_ns;
	u64 seed;
	u64 nr_lines;		/* log lines so far */

	u64 fail_at;		/* value of nr_allocs that fails; 0 = none */
	bool fail_on;		/* and all later ones, too */

	/* The last line logged; not atomic. */
	char line[FAKE_ENV_LINE];
	int level;
};

void fake_env_install(struct fake_env *fake);
void fake_env_remove(struct fake_env *fake);

/* The @nth allocation from now fails (1 = the next; 0 = none), and if @on also those after it. */
void fake_env_fail(struct fake_env *fake, u64 nth, bool on);

/* Has an allocation been refused since fake_env_fail()? */
bool fake_env_failed(const struct fake_env *fake);

void fake_env_advance(struct fake_env *fake, u64 ns);

#endif /* FAKE_ENV_H */
