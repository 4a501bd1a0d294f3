// SPDX-License-Identifier: Apache-2.0
/*
 * The library's side of TLS: a pair of buffers of libssl's, emptied into a socket, and filled from
 * it.
 *
 * Nothing is encrypted as long as bytes of before wait for the socket: what is here is bounded by
 * one call's.
 */
#include <string.h>

#include <kv/log.h>
#include <kv/mem.h>
#include <kv/sock.h>
#include <kv/sys.h>

#include "tls.h"

/* Checkers that do not know attributes of new compilers need not read openssl's. */
#if defined(__has_include) && !defined(__CHECKER__)
#if __has_include(<openssl/ssl.h>)
#define HAVE_SSL
#endif
#endif

/* ---- the key ---- */

static int digit_of(u8 c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void tls_forget_key(struct tls_key *key)
{
	kv_wipe(key, sizeof(*key));
}

int tls_read_key(const char *path, struct tls_key *key)
{
	const struct kv_sock_ops *ops = kv_sock();
	u8 text[2 * TLS_KEY_BYTES + 1];
	s64 nr = ops->secret(ops->ctx, path, text, sizeof(text));
	int bad = nr < 2 * (s64)TLS_KEY_BYTES || (nr == sizeof(text) && text[nr - 1] != '\n');

	for (u32 i = 0; i < TLS_KEY_BYTES && !bad; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		bad = high < 0 || low < 0;
		key->byte[i] = (u32)high << 4 | (u32)low;
	}
	kv_wipe(text, sizeof(text));
	if (bad)
		kv_wipe(key, sizeof(*key));
	return nr < 0 && nr != -E2BIG ? (int)nr : bad ? -EINVAL : 0;
}

#ifdef HAVE_SSL
#include <openssl/ssl.h>
#include <openssl/err.h>

#define CALLS(call)									\
	call(BIO_ctrl) call(BIO_new) call(BIO_read) call(BIO_s_mem) call(BIO_write)	\
	call(ERR_clear_error) call(SSL_CIPHER_find)					\
	call(SSL_CTX_ctrl) call(SSL_CTX_free) call(SSL_CTX_new)				\
	call(SSL_CTX_set_ciphersuites) call(SSL_CTX_set_num_tickets)			\
	call(SSL_CTX_set_psk_find_session_callback)					\
	call(SSL_CTX_set_psk_use_session_callback) call(SSL_CTX_set_verify)		\
	call(SSL_SESSION_free) call(SSL_SESSION_new) call(SSL_SESSION_set1_master_key)	\
	call(SSL_SESSION_set_cipher) call(SSL_SESSION_set_protocol_version)		\
	call(SSL_do_handshake) call(SSL_free) call(SSL_get_error) call(SSL_new)		\
	call(SSL_read) call(SSL_session_reused) call(SSL_set_accept_state)		\
	call(SSL_set_bio) call(SSL_set_connect_state) call(SSL_write) call(TLS_method)

#define MEMBER(name)	__typeof__(&(name)) name;
#define NAME(name)	#name,

struct calls {
	CALLS(MEMBER)
};

struct tls {
	struct calls call;	/* fixed at creation */
	struct tls_key key;	/* all 0 as soon as it was proved */
	SSL_CTX *ctx;		/* ours */
	SSL *ssl;		/* ours */
	BIO *in;		/* the ssl's */
	BIO *out;		/* the ssl's */
	bool is_open;
	int err;		/* why it is over */
};

static const unsigned char identity[] = "kvmm-migrate-1";

/* The link of the call that libssl calls back from. */
static __thread struct tls *caller;

static int find_calls(struct calls *calls)
{
	static const char *const name[] = { CALLS(NAME) };

	static_assert(sizeof(*calls) == sizeof(name), "a name for each");
	return kv_find_calls("tls", "libssl.so.3", name, ARRAY_SIZE(name), (void **)calls);
}

/* ---- what libssl asks ---- */

/* The key, as the session of before that TLS takes it for. */
static SSL_SESSION *make_session(SSL *ssl)
{
	static const unsigned char aes_128_gcm_sha256[] = { 0x13, 0x01 };
	const struct calls *call = &caller->call;
	const SSL_CIPHER *cipher = call->SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
	SSL_SESSION *session = call->SSL_SESSION_new();

	if (session && cipher &&
	    call->SSL_SESSION_set1_master_key(session, caller->key.byte, TLS_KEY_BYTES) &&
	    call->SSL_SESSION_set_cipher(session, cipher) &&
	    call->SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	call->SSL_SESSION_free(session);
	return NULL;
}

static int give_key(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *id_bytes,
		    SSL_SESSION **session)
{
	*id = identity;
	*id_bytes = sizeof(identity);
	*session = make_session(ssl);
	return *session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session)
{
	*session = NULL;
	if (id_bytes != sizeof(identity) || memcmp(id, identity, id_bytes))
		return 1;		/* there is no certificate to go on with */
	*session = make_session(ssl);
	return *session != NULL;
}

/* ---- birth and death ---- */

static int configure(struct tls *tls, bool is_taker)
{
	const struct calls *call = &tls->call;

	tls->ctx = call->SSL_CTX_new(call->TLS_method());
	if (!tls->ctx ||
	    !call->SSL_CTX_ctrl(tls->ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) ||
	    !call->SSL_CTX_set_ciphersuites(tls->ctx, "TLS_AES_128_GCM_SHA256") ||
	    !call->SSL_CTX_set_num_tickets(tls->ctx, 0))
		return -ENOMEM;
	/* A taker that has a certificate instead of the key is not believed: none is. */
	if (!is_taker)
		call->SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
	call->SSL_CTX_ctrl(tls->ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
	call->SSL_CTX_set_psk_use_session_callback(tls->ctx, give_key);
	call->SSL_CTX_set_psk_find_session_callback(tls->ctx, find_key);
	tls->ssl = call->SSL_new(tls->ctx);
	return tls->ssl ? 0 : -ENOMEM;
}

static int attach(struct tls *tls, bool is_taker)
{
	const struct calls *call = &tls->call;

	tls->in = call->BIO_new(call->BIO_s_mem());
	tls->out = tls->in ? call->BIO_new(call->BIO_s_mem()) : NULL;
	call->SSL_set_bio(tls->ssl, tls->in, tls->out);
	if (!tls->out)
		return -ENOMEM;
	if (is_taker)
		call->SSL_set_accept_state(tls->ssl);
	else
		call->SSL_set_connect_state(tls->ssl);
	return 0;
}

int tls_make(const struct tls_key *key, bool is_taker, struct tls **result)
{
	struct tls *tls = kv_alloc(sizeof(*tls));
	int err = tls ? find_calls(&tls->call) : -ENOMEM;

	if (err) {
		kv_free(tls);
		return err;
	}
	tls->key = *key;
	err = configure(tls, is_taker);
	if (!err)
		err = attach(tls, is_taker);
	if (err)
		tls_free(tls);
	else
		*result = tls;
	return err;
}

void tls_free(struct tls *tls)
{
	if (!tls)
		return;
	tls->call.SSL_free(tls->ssl);
	tls->call.SSL_CTX_free(tls->ctx);
	kv_wipe(&tls->key, sizeof(tls->key));
	kv_free(tls);
}

/* ---- the socket ---- */

/* 0 all has left; -EAGAIN; -errno. */
static int flush(struct tls *tls, int fd)
{
	const struct kv_sock_ops *ops = kv_sock();
	char *data, gone[4096];
	long nr;

	while ((nr = tls->call.BIO_ctrl(tls->out, BIO_CTRL_INFO, 0, &data)) > 0) {
		s64 sent = ops->send(ops->ctx, fd, data, nr, NULL, 0);

		if (sent < 0)
			return kv_sock_is_passing(sent) ? -EAGAIN : (int)sent;
		while (sent > 0)
			sent -= tls->call.BIO_read(tls->out, gone, min(sent, (s64)sizeof(gone)));
	}
	return 0;
}

/* 0 more has come; -EAGAIN; -ECONNRESET it is over; -errno. */
static int fill(struct tls *tls, int fd)
{
	const struct kv_sock_ops *ops = kv_sock();
	u8 buf[SSL3_RT_MAX_PLAIN_LENGTH];
	int fds[KV_SOCK_FDS];
	u32 nr_fds = 0;
	s64 nr = ops->recv(ops->ctx, fd, buf, sizeof(buf), fds, &nr_fds);

	if (nr <= 0)
		return kv_sock_is_passing(nr) ? -EAGAIN : nr ? (int)nr : -ECONNRESET;
	while (nr_fds)
		ops->close(ops->ctx, fds[--nr_fds]);
	/* Out of memory: bytes are lost, and the link with them. */
	return tls->call.BIO_write(tls->in, buf, nr) == nr ? 0 : -ECONNRESET;
}

/* It has said @ret, which is not what was wanted: 0 it has more to read now; -EAGAIN; -errno. */
static int look(struct tls *tls, int fd, int ret, int otherwise)
{
	if (tls->call.SSL_get_error(tls->ssl, ret) == SSL_ERROR_WANT_READ)
		return fill(tls, fd);
	flush(tls, fd);		/* why, for the other side */
	return otherwise;
}

/* 0 both sides have proved that they know the key. */
static int shake(struct tls *tls, int fd)
{
	int err = tls->err, ret;

	while (!err && !tls->is_open) {
		tls->call.ERR_clear_error();
		caller = tls;
		ret = tls->call.SSL_do_handshake(tls->ssl);
		err = flush(tls, fd);
		err = err == -EAGAIN ? 0 : err;
		if (ret != 1) {
			err = err ? err : look(tls, fd, ret, -EACCES);
			continue;
		}
		tls->is_open = tls->call.SSL_session_reused(tls->ssl);
		err = tls->is_open ? err : -EACCES;
		kv_wipe(&tls->key, sizeof(tls->key));
	}
	return err;
}

static s64 keep(struct tls *tls, s64 ret)
{
	if (ret < 0 && ret != -EAGAIN)
		tls->err = ret;
	return ret;
}

s64 tls_send(struct tls *tls, int fd, const void *buf, size_t bytes)
{
	int err = shake(tls, fd), ret;

	if (!err)
		err = flush(tls, fd);
	if (err)
		return keep(tls, err);
	tls->call.ERR_clear_error();
	ret = tls->call.SSL_write(tls->ssl, buf, min(bytes, (size_t)SSL3_RT_MAX_PLAIN_LENGTH));
	if (ret <= 0)
		return keep(tls, -EPROTO);
	err = flush(tls, fd);
	return err && err != -EAGAIN ? keep(tls, err) : ret;
}

s64 tls_recv(struct tls *tls, int fd, void *buf, size_t bytes)
{
	int err = shake(tls, fd), ret;

	if (!err) {
		err = flush(tls, fd);
		err = err == -EAGAIN ? 0 : err;
	}
	while (!err) {
		tls->call.ERR_clear_error();
		ret = tls->call.SSL_read(tls->ssl, buf, min(bytes, (size_t)INT32_MAX));
		if (ret > 0)
			return ret;
		if (tls->call.SSL_get_error(tls->ssl, ret) == SSL_ERROR_ZERO_RETURN)
			return 0;
		err = look(tls, fd, ret, -EPROTO);
	}
	return err == -ECONNRESET ? 0 : keep(tls, err);
}

#else /* !HAVE_SSL */

int tls_make(const struct tls_key *key, bool is_taker, struct tls **result)
{
	return kv_refuse(-EOPNOTSUPP, "tls: this library was built without the headers of OpenSSL");
}

void tls_free(struct tls *tls)
{
}

s64 tls_send(struct tls *tls, int fd, const void *buf, size_t bytes)
{
	return -EOPNOTSUPP;
}

s64 tls_recv(struct tls *tls, int fd, void *buf, size_t bytes)
{
	return -EOPNOTSUPP;
}

#endif /* HAVE_SSL */
