/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server for keys and values inside the test, behind the seam for sockets: one that does as it is
 * told, cuts what it sends and takes into pieces, lies, is late, closes, and dies.
 *
 *	fake_server_begin(&fake);		// connections over TCP go there from here on
 *	fake.piece = 1;				// a byte at a time
 *	fake_server_end(&fake);			// no connection was left open
 *
 * Guard: none; one thread.
 */
#ifndef REMOTE_FAKE_SERVER_H
#define REMOTE_FAKE_SERVER_H

#include <kv/sock.h>
#include <kv/types.h>

#define FAKE_KEYS	4096u
#define FAKE_LINKS	64u

struct fake_value {
	char	*key;		/* NULL: free */
	u8	*value;
	u32	key_bytes;
	u32	value_bytes;
};

struct fake_bytes {
	u8	*at;
	size_t	nr, room, taken;
};

struct fake_link {
	bool	is_open;	/* for the client */
	bool	is_dead;	/* the server has closed it */
	bool	is_known;	/* it has said the password */
	bool	is_hung_up;	/* as it has to be before it is closed: a child may have it open */
	struct fake_bytes in, out;
};

struct fake_server {
	struct kv_sock_ops ops;
	struct fake_value value[FAKE_KEYS];
	struct fake_link link[FAKE_LINKS];
	u32	nr_links;

	/* What is wrong with it. */
	u32	piece;		/* most bytes of a send or recv; 0: any */
	u32	close_in;	/* the connection closes after so many bytes more; 0: never */
	u32	stall_at;	/* no more than so many bytes are answered; 0: any */
	u32	flip_in;	/* a bit of the byte that it sends then is another one */
	bool	is_down;	/* nothing can be connected */
	bool	hangs;		/* commands are taken, and not looked at */
	bool	is_full;	/* commands that may take memory are refused */
	bool	is_late;	/* those of a closed connection wait: fake_server_run_late() */
	void	(*idle)(void);	/* is called when there is nothing to be received; may be NULL */
	const char *error;	/* the answer to each command */
	const char *del_error;	/* to DEL */
	const char *password;	/* wanted; NULL: none */
	const char *unasked;	/* is said so often as a connection begins; NULL: nothing */
	u32	nr_unasked;

	u32	nr_answered;	/* bytes */
	u32	nr_connects;
	u32	nr_commands;
	u32	nr_evicted;	/* values that had to go for others */
	u32	nr_sets, nr_gets, nr_dels, nr_exists;
	u32	nr_words;	/* that were asked for, and not changed */
	u32	nr_refused;	/* commands that no server knows */
};

void fake_server_begin(struct fake_server *fake);
void fake_server_end(struct fake_server *fake);
/* All connections are closed; its values stay or are lost. */
void fake_server_die(struct fake_server *fake, bool loses_all);
/* What connections that the client has closed have left behind is done now. */
void fake_server_run_late(struct fake_server *fake);
/* The value of which the key has that text in it, from value @from on; NULL: none. */
struct fake_value *fake_server_find(struct fake_server *fake, const char *part, u32 from);
/* Keys of blocks. */
u32 fake_server_nr(const struct fake_server *fake);
void fake_server_set(struct fake_server *fake, const char *key, const char *value);

#endif /* REMOTE_FAKE_SERVER_H */
