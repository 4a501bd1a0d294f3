// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as what a server answers. However they are cut into pieces they are read as the same
 * replies, none of which is longer than it may be; and behind what is none nothing is read any
 * more.
 */
#include "remote/resp.h"
#include "tests/fuzz/require.h"

/* Of each reply, and of each body, what was read; a sum of that, and how many. */
struct seen {
	uint64_t sum;
	uint32_t nr;
	bool is_bad;
};

static void see(struct seen *seen, uint64_t what)
{
	seen->sum = (seen->sum ^ what) * 0x9e3779b97f4a7c15ull;
	seen->nr++;
}

static void see_body(struct seen *seen, struct resp *resp, const u8 **at, const u8 *end)
{
	u64 left = resp->left, nr = (u64)(end - *at) < left ? (u64)(end - *at) : left;

	require(nr && left <= RESP_BULK_MAX);
	for (u64 i = 0; i < nr; i++)
		see(seen, *(*at)++);
	resp_take(resp, nr);
	require(resp->left == left - nr);
}

/* In memory of just that size, so that nothing behind it is read. */
static void read_piece(struct seen *seen, struct resp *resp, const uint8_t *data, size_t bytes)
{
	u8 *copy = malloc(bytes + !bytes);
	const u8 *at = copy, *end = copy + bytes;
	enum resp_kind kind;
	s64 number;

	require(copy);
	memcpy(copy, data, bytes);
	while ((kind = resp_next(resp, &at, end, &number)) != RESP_MORE) {
		require(at >= copy && at <= end);
		if (kind == RESP_BODY) {
			see_body(seen, resp, &at, end);
			continue;
		}
		see(seen, 256u + kind);
		if (kind == RESP_NUMBER || kind == RESP_BULK)
			see(seen, (u64)number);
		if (kind == RESP_BULK)
			require(number >= 0 && number <= RESP_BULK_MAX);
		seen->is_bad = kind == RESP_BAD;
		if (seen->is_bad)
			break;
	}
	require(seen->is_bad || at == end);
	free(copy);
}

static struct seen read_all(const uint8_t *data, size_t bytes, size_t piece)
{
	struct seen seen = { 0 };
	struct resp resp = { 0 };

	for (size_t from = 0; from < bytes && !seen.is_bad; from += piece)
		read_piece(&seen, &resp, data + from, bytes - from < piece ? bytes - from : piece);
	if (seen.is_bad) {
		const u8 *at = (const u8 *)"+OK\r\n";
		s64 number;

		require(resp_next(&resp, &at, at + 5, &number) == RESP_BAD);
	}
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct seen whole = read_all(data, bytes, bytes + 1);

	for (size_t piece = 1; piece < 8; piece++) {
		struct seen cut = read_all(data, bytes, piece);

		require(cut.sum == whole.sum && cut.nr == whole.nr && cut.is_bad == whole.is_bad);
	}
	return 0;
}
