/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link to another machine: TLS 1.3 with a key that both sides have been given beforehand.
 *
 * Both prove that they know the key before anything else is heard or said; there are no
 * certificates, no tickets and no early data, so what was once recorded proves nothing. libssl.so.3
 * is opened at run time, and waits for nothing: it reads and writes memory.
 *
 * No lock: it belongs to one connection.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <kv/types.h>

#define TLS_KEY_BYTES	32u

struct tls_key {
	u8 byte[TLS_KEY_BYTES];
};

struct tls;

/* Of a file of the user's alone, 64 hexadecimal digits: 0; -EINVAL others; -EPERM, -errno. */
int tls_read_key(const char *path, struct tls_key *key);

void tls_forget_key(struct tls_key *key);

/* One side: 0; -EOPNOTSUPP there is no libssl, or the library was built without; -ENOMEM. */
int tls_make(const struct tls_key *key, bool is_taker, struct tls **tls);
void tls_free(struct tls *tls);		/* takes NULL */

/*
 * As send and recv of struct kv_sock_ops, over that socket. What was sent may still be here: each
 * of them passes it on. -EACCES: the other side does not know the key; -EPROTO: bytes were changed.
 */
s64 tls_send(struct tls *tls, int fd, const void *buf, size_t bytes);
s64 tls_recv(struct tls *tls, int fd, void *buf, size_t bytes);

#endif /* NET_TLS_H */
