// SPDX-License-Identifier: Apache-2.0
/* Events through the control socket: by cursor, in portions, with what was lost, and what is cached. */
#include <kvmm/event.h>

#include "control_util.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

static struct kvmm_control *control;
static struct kvmm_pool *pool;
static char said[512];
static int fd;

static void set_up(void)
{
	folder_make();
	pool = make_cache(8, "lru");
	control = control_in_folder(NULL);
	cr_assert_eq(kvmm_control_add_pool(control, "a", pool), 0);
	fd = visitor(control);
}

static void tear_down(void)
{
	close(fd);
	kvmm_control_close(control);
	end_pool(pool);
	folder_remove();
	cr_expect_eq(kv_mem_bytes(), 0);
}

TestSuite(events_cmd, .init = set_up, .fini = tear_down);

static void say_row(const char *row, size_t nr)
{
	size_t len = strlen(said);
	struct kvmm_event event;
	char kind[24];
	u64 seq;

	cr_assert_eq(sscanf(row, "%lu %23s", &seq, kind), 2);
	if (kvmm_event_parse(row, nr, &event))
		snprintf(said + len, sizeof(said) - len, "%s@%lu%s ", kind, seq,
			 strcmp(kind, "lost") ? "" : strrchr(row, '\t'));
	else if (event.kind < KVMM_NR_EVENT_KINDS)
		snprintf(said + len, sizeof(said) - len, "%c%u ",
			 event.kind == KVMM_EVENT_STORED ? '+' : '-', number_of(&event.key));
	else
		snprintf(said + len, sizeof(said) - len, "%s ", kind);
}

/* "+1 -2 next@2 ": two events, and where to go on. "!22": it was refused. */
static const char *events(const char *line)
{
	char *answer = strdup(ask(control, fd, line)), *row, *end;

	said[0] = '\0';
	if (!strncmp(answer, "err ", 4)) {
		snprintf(said, sizeof(said), "!%d", atoi(answer + 4));
		free(answer);
		return said;
	}
	row = strchr(answer, '\n') + 1;
	cr_assert(!strncmp(row, KVMM_EVENT_COLUMNS "\n", strlen(KVMM_EVENT_COLUMNS) + 1), "%s", answer);
	for (row = strchr(row, '\n') + 1; *row; row = end + 1) {
		end = strchr(row, '\n');
		*end = '\0';
		say_row(row, end - row);
	}
	free(answer);
	return said;
}

Test(events_cmd, reader_goes_on_where_it_stood)
{
	cr_expect_str_eq(events("events a new 10"), "next@0 ");
	cache_keys(pool, 1, 3);
	cr_expect_str_eq(events("events - 0 2"), "+1 +2 next@2 ");
	cr_expect_str_eq(events("events a 2 10"), "+3 next@3 ");
	cr_expect_str_eq(events("events a 3 10"), "next@3 ");
	cr_expect_str_eq(events("events a 1 1"), "+2 next@2 ", "another one");
	cr_expect_str_eq(events("events a new 10"), "next@3 ");
	cr_expect_str_eq(events("events a 0 0"), "next@0 ");
}

Test(events_cmd, requests_are_for_who_asks)
{
	struct kvmm_request_note note = { .size = sizeof(note), .input = 1 };
	kvmm_key_t key = key_of(1);

	note.keys = &key;
	note.nr_keys = 1;
	cr_expect_str_eq(events("events a new 10 requests"), "next@0 ");
	cr_assert_eq(kvmm_note_request(pool, &note), 0);
	cache_keys(pool, 1, 1);
	cr_expect_str_eq(events("events a 0 10 requests"), "request request_keys +1 next@3 ");
	cr_expect_str_eq(events("events a 0 10"), "+1 next@3 ");
	cr_expect_str_eq(events("events a 3 10 all"), "next@3 ");
	cr_assert_eq(kvmm_match_len(pool, &key, 1), 1);
	cr_expect_str_eq(events("events a 3 10 all"), "next@3 ", "a length is no lookup");
}

/* Others may have asked for more: who did not is not told. */
Test(events_cmd, lookups_are_for_who_asks)
{
	kvmm_key_t key = key_of(1);
	kvmm_ref_t ref;

	cr_expect_str_eq(events("events a new 10 requests"), "next@0 ");
	cr_expect_str_eq(events("events a new 10 all"), "next@0 ");
	cr_expect_eq(kvmm_match(pool, &key, 1, &ref), 0);
	cr_expect_str_eq(events("events a 0 10 requests"), "next@2 ");
	cr_expect_str_eq(events("events a 0 10 lookups"), "lookup lookup_keys next@2 ");
	cr_expect_str_eq(events("events a 0 10 requests"), "next@2 ");
	cr_expect_eq(kvmm_match(pool, &key, 1, &ref), 0);
	cr_expect_str_eq(events("events a 2 10 lookups"), "lookup lookup_keys next@4 ", "still");
}

Test(events_cmd, who_asks_for_less_takes_nothing_from_others)
{
	struct kvmm_request_note note = { .size = sizeof(note), .input = 1 };

	cr_expect_str_eq(events("events a new 10 requests"), "next@0 ");
	cr_expect_str_eq(events("events a new 10 lookups"), "next@0 ");
	cr_assert_eq(kvmm_note_request(pool, &note), 0);
	cr_expect_str_eq(events("events a 0 10 requests"), "request next@1 ");
}

/* A ring of 16, which somebody has made before: who comes late goes on half of it behind the end. */
Test(events_cmd, what_is_lost_is_told_where_and_how_much)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *first;
	const char *answer;

	attr.ring = 16;
	cr_assert_eq(kvmm_events_open(pool, &attr, &first), 0);
	for (u32 i = 0; i < 20; i++) {
		cr_assert_geq(kvmm_reset_inactive(pool), 0);
		cache_keys(pool, 1 + i, 1);
	}
	answer = ask(control, fd, "events a 2 100");
	cr_expect_not_null(strstr(answer, "\n2\tlost\t"), "%s", answer);
	cr_expect_not_null(strstr(answer, "\t29\n31\tremoved\t"), "%s", answer);
	cr_expect_not_null(strstr(answer, "\n39\tnext\t"), "%s", answer);
	kvmm_events_close(first);
}

Test(events_cmd, names_come_in_portions)
{
	cache_keys(pool, 1, 3);
	cr_expect_not_null(strstr(ask(control, fd, "names a 2"),
				  "\n0\tmore\t-\t-\t-\t-\t-\t-\t2\t-\t0\t0\t-\t"));
	cr_expect_str_eq(events("names a 10"), "+1 +2 +3 end@0 ");
	cr_expect_str_eq(events("names a 2"), "+1 +2 more@0 ");
	cr_expect_str_eq(events("names a 2 0 0 2 0"), "+3 end@0 ");
}

Test(events_cmd, what_is_no_place_is_refused)
{
	cr_expect_str_eq(events("events a new 10"), "next@0 ");
	cr_expect_str_eq(events("events a 1 10"), "!22");
	cr_expect_str_eq(events("events a -1 10"), "!22");
	cr_expect_str_eq(events("events a 0 10 everything"), "!22");
	cr_expect_str_eq(events("events a 0"), "!22");
	cr_expect_str_eq(events("events b 0 10"), "!2");
	cr_expect_str_eq(events("names a 10 0"), "!22");
	cr_expect_str_eq(events("names a 0"), "!22");
	cr_expect_str_eq(events("events a 0 8193"), "!22");
	cr_expect_str_eq(events("names a 8193"), "!22");
	cr_expect_str_eq(events("names a 10 0 4294967296 0 0"), "!22");
	cr_expect_str_eq(events("names a 10 18446744073709551615 3 0 18446744073709551615"),
			 "end@18446744073709551615 ");
	cr_expect_str_eq(events("names a 10 0 77 4294967295 0"), "end@0 ");
}

Test(events_cmd, nothing_is_kept_for_who_does_not_come_back)
{
	struct fake_env fake;

	tear_down();
	fake_env_install(&fake);
	set_up();
	cr_expect_str_eq(events("events a new 10"), "next@0 ");
	fake.now_ns += 29ull * 1000000000;
	control_settle(control);
	cache_keys(pool, 1, 1);
	fake.now_ns += 2ull * 1000000000;
	control_settle(control);
	kvmm_control_poll(control);
	cache_keys(pool, 2, 1);
	cr_expect_str_eq(events("events a 0 10"), "+1 next@1 ", "the second one was told to nobody");
	tear_down();
	fake_env_remove(&fake);
	set_up();
}
