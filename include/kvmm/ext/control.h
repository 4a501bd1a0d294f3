/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control socket: other processes can watch pools, and steer them.
 *
 *	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
 *
 *	attr.name  = "engine";
 *	attr.flags = KVMM_CONTROL_THREAD;
 *	err = kvmm_control_open(&attr, &control);	// engine.sock, in the user's own folder
 *	err = kvmm_control_add_pool(control, NULL, pool);
 *	...						// kvmm-stat, kvmm-top, kvmm-defrag, ...
 *	kvmm_control_remove_pool(control, pool);	// before the pool is destroyed
 *	kvmm_control_close(control);
 *
 * There is none unless the engine opens one. Either a thread of kvmm's serves it, or the engine's
 * own loop does, by kvmm_control_fd() and kvmm_control_poll(). Only processes of the same user, and
 * root, get in. struct kvmm_control_attr bounds what clients may cost. Protocol and commands:
 * Documentation/control.rst.
 */
#ifndef KVMM_EXT_CONTROL_H
#define KVMM_EXT_CONTROL_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_control;
struct kvmm_pool;

/** Longest request of a client, in bytes, its end of line included. */
#define KVMM_CONTROL_REQUEST_BYTES	4096u

/** Longest name of a socket, and of a pool at one. */
#define KVMM_CONTROL_NAME		64u

/** A thread of kvmm's serves the socket. Without it, callers of kvmm_control_poll() do. */
#define KVMM_CONTROL_THREAD		(1u << 0)

/** Commands that change something are refused. */
#define KVMM_CONTROL_READ_ONLY		(1u << 1)

/**
 * struct kvmm_control_attr - a control socket
 * @size: sizeof(struct kvmm_control_attr); set by KVMM_CONTROL_ATTR_INIT
 * @name: of the socket, to which ".sock" is added: letters, digits, '.', '_' and '-', at most
 *	KVMM_CONTROL_NAME - 1; NULL: "kvmm-" and the number of the process
 * @dir: folder that it is in, made if it is not there; NULL: KVMM_SOCKET_DIR of the environment,
 *	else kvmm in XDG_RUNTIME_DIR, else /run/kvmm; printable UTF-8
 * @flags: KVMM_CONTROL_*
 * @max_clients: at a time, 1 to 1024; more are told so, and closed
 * @max_rate: requests a second of each client, 1 to 1,000,000; a client that asks for more waits
 * @idle_ms: a client that says nothing, or not all of a request, for so long is closed
 * @output_ms: so is one that takes nothing of its answer for so long
 * @max_answer_bytes: longest answer; a longer one is an error
 * @reserved: 0
 */
struct kvmm_control_attr {
	size_t size;
	const char *name;
	const char *dir;
	uint32_t flags;
	uint32_t max_clients;
	uint32_t max_rate;
	uint32_t idle_ms;
	uint32_t output_ms;
	uint32_t max_answer_bytes;
	uint64_t reserved;
};

#define KVMM_CONTROL_ATTR_INIT { sizeof(struct kvmm_control_attr), NULL, NULL, 0, 64, 1000, 60000, \
				 5000, 4u << 20, 0 }

/**
 * kvmm_control_open() - make a control socket, and listen
 * @attr: borrowed during the call; NULL = KVMM_CONTROL_ATTR_INIT
 * @control: set on success only
 *
 * Replaces a socket of that name on which no process listens any more.
 *
 * Context: starts a thread if asked to.
 * Return: 0; -EINVAL; -EADDRINUSE a process listens there; -EPERM the folder is a link, not the
 * user's, or open to others; -ENOENT, -EACCES, -errno the folder cannot be made; -ENAMETOOLONG;
 * -ENOMEM; -EMFILE; -EAGAIN no thread to be had, or the folder stayed locked (flock) for a second.
 */
KVMM_API int kvmm_control_open(const struct kvmm_control_attr *attr, struct kvmm_control **control);

/**
 * kvmm_control_add_pool() - show a pool to clients from now on
 * @name: by which name: UTF-8, printable, no blanks; NULL: the pool's own
 *
 * Context: any thread; waits for a command that is being carried out.
 * Return: 0; -EEXIST that name, or that pool, is there; -EINVAL also a name that is none; -ENOMEM;
 * -ECHILD this is a forked child.
 */
KVMM_API int kvmm_control_add_pool(struct kvmm_control *control, const char *name,
				   struct kvmm_pool *pool);

/**
 * kvmm_control_remove_pool() - hide a pool; what clients have begun with it ends
 *
 * Cancels migrations that a client has begun, and waits for their copies. Call it also before the
 * pool's tier is detached.
 *
 * Context: as kvmm_control_add_pool().
 * Return: 0; -ENOENT; -EINVAL; -ECHILD.
 */
KVMM_API int kvmm_control_remove_pool(struct kvmm_control *control, struct kvmm_pool *pool);

/** kvmm_control_close() - take the socket away, with all clients; takes NULL. Waits for the thread.
 * If another engine has put its own there meanwhile, that stays. Does nothing in a forked child. */
KVMM_API void kvmm_control_close(struct kvmm_control *control);

/** kvmm_control_path() - where it listens; valid until the control is closed. NULL: nowhere. */
KVMM_API const char *kvmm_control_path(const struct kvmm_control *control);

/** kvmm_control_fd() - can be read when there is a reason to poll. Return: a descriptor of the
 * control's; -EBUSY it has a thread; -EINVAL. */
KVMM_API int kvmm_control_fd(const struct kvmm_control *control);

/**
 * kvmm_control_poll() - accept new clients, and answer requests
 *
 * Never waits for a client. Of each client one request is answered at most.
 *
 * Context: one thread at a time; commands that steer do what the call of that name does.
 * Return: milliseconds after which to call it again at the latest, 0 to 1000; -EBUSY it has a
 * thread, or another thread is in it; -ECHILD; -EINVAL.
 */
KVMM_API int kvmm_control_poll(struct kvmm_control *control);

/**
 * struct kvmm_control_stat - counts since it was opened, but for the first; each of its own moment
 * @size: sizeof(struct kvmm_control_stat); set it before the call
 * @clients: there are now
 * @accepted: clients that were let in
 * @refused: that were not: too many, or another user
 * @dropped: that were closed: too slow, too long a line, silent for too long
 * @requests: answered
 * @errors: of these, with an error
 * @bytes: sent
 * @shut: descriptors or memory were short: clients had to wait for a moment
 */
struct kvmm_control_stat {
	size_t size;
	uint64_t clients;
	uint64_t accepted;
	uint64_t refused;
	uint64_t dropped;
	uint64_t requests;
	uint64_t errors;
	uint64_t bytes;
	uint64_t shut;
};

/** kvmm_control_get_stat() - Context: any thread. Return: 0; -EINVAL. */
KVMM_API int kvmm_control_get_stat(const struct kvmm_control *control,
				   struct kvmm_control_stat *stat);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_CONTROL_H */
