/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_MAP_H
#define TOOLS_MAP_H

struct kvmm_pool;

/*
 * The pool as a picture: a character for each of @width equal parts, into @buf with room for one more.
 * ' ' all free, '.' mostly free, ':' half, '#' mostly held, '@' all held; 'P' holds a pinned range; 'c'
 * only cached, evictable blocks; '-' given back. 0, or -errno.
 */
int pool_map(struct kvmm_pool *pool, char *buf, unsigned int width);

#endif /* TOOLS_MAP_H */
