/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records by number: number n has always the same name, length and bytes, and no two have the same.
 *
 * Lengths go from 1 byte to a bit over three pages, whole pages among them; keys from 8 to 64 bytes.
 */
#ifndef DISK_UTIL_H
#define DISK_UTIL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/disk.h>
#include <kv/types.h>

#define DISK_TEST_MAX_BYTES	(4 * KV_DISK_PAGE)

struct kvmm_disk_name disk_test_name(u32 n);
u32 disk_test_bytes(u32 n);
void disk_test_fill(u32 n, void *data);
bool disk_test_is_right(u32 n, const void *data, u32 bytes);
struct kvmm_disk_put_args disk_test_put(u32 n, const void *data);

/* A page aligned buffer of DISK_TEST_MAX_BYTES; any number of them is one piece. */
void *disk_test_buffers(u32 nr);

/* Puts record n: status. */
int disk_test_write(struct kvmm_disk *disk, u32 n, u32 flags);
/* Gets it: 0 and the right bytes, -errno, or 1: wrong bytes. */
int disk_test_read(struct kvmm_disk *disk, u32 n);
int disk_test_forget(struct kvmm_disk *disk, u32 n, u32 flags);
/* Is it said to be there? */
bool disk_test_has(struct kvmm_disk *disk, u32 n);

struct kvmm_disk_stat disk_test_stat(struct kvmm_disk *disk);

#endif /* DISK_UTIL_H */
