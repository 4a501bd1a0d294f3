// SPDX-License-Identifier: Apache-2.0
/*
 * Checksums of data on disk: CRC-32C for headers, XXH64 for payload. Against accidents, not
 * against people; both are common, so that a file can be checked by other programs.
 *
 * Payload comes by the gigabyte: XXH64 keeps four sums apart, each of 8 bytes in 32, and is as fast
 * as memory. It goes on in pieces of whole stripes, so that no caller has to hold all of it.
 */
#include <string.h>

#include <kv/disk.h>

#include "internal.h"

/* Remainders by the polynomial 0x1edc6f41, bits reversed; a byte's is the sum of its bits'. */
#define OF_BIT(byte, bit, sum)	((byte) >> (bit) & 1 ? (sum) : 0u)
#define OF_BYTE(b)	(OF_BIT(b, 0, 0xf26b8303) ^ OF_BIT(b, 1, 0xe13b70f7) ^ \
			 OF_BIT(b, 2, 0xc79a971f) ^ OF_BIT(b, 3, 0x8ad958cf) ^ \
			 OF_BIT(b, 4, 0x105ec76f) ^ OF_BIT(b, 5, 0x20bd8ede) ^ \
			 OF_BIT(b, 6, 0x417b1dbc) ^ OF_BIT(b, 7, 0x82f63b78))
#define OF_4(b)		OF_BYTE(b), OF_BYTE((b) + 1), OF_BYTE((b) + 2), OF_BYTE((b) + 3)
#define OF_16(b)	OF_4(b), OF_4((b) + 4), OF_4((b) + 8), OF_4((b) + 12)
#define OF_64(b)	OF_16(b), OF_16((b) + 16), OF_16((b) + 32), OF_16((b) + 48)

static const u32 crc_table[256] = { OF_64(0), OF_64(64), OF_64(128), OF_64(192) };

u32 kv_disk_crc(const void *data, size_t bytes)
{
	const u8 *at = data, *end = at + bytes;
	u32 crc = ~0u;

	while (at < end)
		crc = crc_table[(crc ^ *at++) & 0xff] ^ crc >> 8;
	return ~crc;
}

#define PRIME_1		0x9e3779b185ebca87ull
#define PRIME_2		0xc2b2ae3d27d4eb4full
#define PRIME_3		0x165667b19e3779f9ull
#define PRIME_4		0x85ebca77c2b2ae63ull
#define PRIME_5		0x27d4eb2f165667c5ull
#define STRIPE		32u

static u64 rotate(u64 x, unsigned int bits)
{
	return x << bits | x >> (64 - bits);
}

static u64 word_at(const u8 *at)
{
	u64 word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static u64 round_of(u64 sum, u64 word)
{
	return rotate(sum + word * PRIME_2, 31) * PRIME_1;
}

void disk_sum_begin(struct disk_sum *sum)
{
	*sum = (struct disk_sum){ { PRIME_1 + PRIME_2, PRIME_2, 0, -PRIME_1 }, 0 };
}

void disk_sum_add(struct disk_sum *sum, const void *data, size_t bytes)
{
	u64 a = sum->part[0], b = sum->part[1], c = sum->part[2], d = sum->part[3];
	const u8 *at = data, *end = at + bytes;

	for (; end - at >= STRIPE; at += STRIPE) {
		a = round_of(a, word_at(at));
		b = round_of(b, word_at(at + 8));
		c = round_of(c, word_at(at + 16));
		d = round_of(d, word_at(at + 24));
	}
	*sum = (struct disk_sum){ { a, b, c, d }, sum->bytes + bytes };
}

/* @tail: the last bytes of all, fewer than a stripe, which disk_sum_add() has counted but left. */
u64 disk_sum_end(const struct disk_sum *sum, const void *tail)
{
	const u8 *at = tail, *end = at + sum->bytes % STRIPE;
	const u64 *part = sum->part;
	u64 all = part[2] + PRIME_5;
	u32 half;

	/* The sum of four sums, once there was a stripe. */
	if (sum->bytes >= STRIPE) {
		all = rotate(part[0], 1) + rotate(part[1], 7) + rotate(part[2], 12) +
		      rotate(part[3], 18);
		for (u32 i = 0; i < 4; i++)
			all = (all ^ round_of(0, part[i])) * PRIME_1 + PRIME_4;
	}
	all += sum->bytes;
	for (; end - at >= 8; at += 8)
		all = rotate(all ^ round_of(0, word_at(at)), 27) * PRIME_1 + PRIME_4;
	if (end - at >= 4) {
		memcpy(&half, at, sizeof(half));
		all = rotate(all ^ half * PRIME_1, 23) * PRIME_2 + PRIME_3;
		at += 4;
	}
	while (at < end)
		all = rotate(all ^ *at++ * PRIME_5, 11) * PRIME_1;
	all = (all ^ all >> 33) * PRIME_2;
	all = (all ^ all >> 29) * PRIME_3;
	return all ^ all >> 32;
}

u64 kv_disk_sum(const void *data, size_t bytes)
{
	struct disk_sum sum;

	disk_sum_begin(&sum);
	disk_sum_add(&sum, data, bytes);
	return disk_sum_end(&sum, (const u8 *)data + (bytes - bytes % STRIPE));
}
