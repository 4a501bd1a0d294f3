// SPDX-License-Identifier: Apache-2.0
/*
 * One binary for every glibc from 2.28 on: calls that newer ones gave a new version are bound to
 * the first one, and what they added is found here. All of it is local to the extension.
 */
#if defined(__GLIBC__) || defined(__linux__)
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <fcntl.h>

#if defined(__x86_64__)
#define FIRST	"GLIBC_2.2.5"
#define NAMED	"GLIBC_2.12"
#else
#define FIRST	"GLIBC_2.17"
#define NAMED	FIRST
#endif

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"	/* what is passed on is not read */

#define OLD(result, name, version, params, args)			\
	__asm__(".symver old_" #name "," #name "@" version);		\
	extern result old_##name params;				\
	result name params;						\
	result name params { return old_##name args; }

OLD(void *, dlopen, FIRST, (const char *file, int mode), (file, mode))
OLD(void *, dlsym, FIRST, (void *handle, const char *name), (handle, name))
OLD(char *, dlerror, FIRST, (void), ())
OLD(int, dladdr, FIRST, (const void *address, void *info), (address, info))
OLD(int, pthread_create, FIRST, (pthread_t *thread, const pthread_attr_t *attr,
				 void *(*start)(void *), void *arg), (thread, attr, start, arg))
OLD(int, pthread_join, FIRST, (pthread_t thread, void **result), (thread, result))
OLD(int, pthread_once, FIRST, (pthread_once_t *once, void (*call)(void)), (once, call))
OLD(int, pthread_key_create, FIRST, (pthread_key_t *key, void (*end)(void *)), (key, end))
OLD(int, pthread_setspecific, FIRST, (pthread_key_t key, const void *value), (key, value))
OLD(void *, pthread_getspecific, FIRST, (pthread_key_t key), (key))
OLD(int, pthread_setname_np, NAMED, (pthread_t thread, const char *name), (thread, name))
OLD(int, pthread_sigmask, FIRST, (int how, const sigset_t *set, sigset_t *old), (how, set, old))

/* Inline in headers of old. */
int fstat(int fd, struct stat *stat)
{
	return (int)syscall(SYS_fstat, fd, stat);
}

int lstat(const char *path, struct stat *stat)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, stat, AT_SYMLINK_NOFOLLOW);
}

/* No restartable sequences: the library asks the kernel which processor it runs on. */
extern const unsigned int __rseq_size;
extern const ptrdiff_t __rseq_offset;
const unsigned int __rseq_size = 0;
const ptrdiff_t __rseq_offset = 0;
#endif
