// SPDX-License-Identifier: Apache-2.0
/*
 * Loaded before a program that runs in an emulator, which leaves execve() to the kernel: where the kernel
 * does not know the emulator, a program for that processor is started by $KVMM_EMULATOR here. Criterion
 * starts each test as a process of its own, by the path of the program.
 *
 * QEMU 7 says that it will clear a page in children, and does not: here it says no.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_ARGS	256
#define MACHINE_AT	18	/* of an ELF file: two bytes, the lower one first */
#define AARCH64		183

static int is_emulated(const char *path)
{
	unsigned char head[MACHINE_AT + 2] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int good = fd >= 0 && read(fd, head, sizeof(head)) == sizeof(head);

	if (fd >= 0)
		close(fd);
	return good && head[1] == 'E' && head[MACHINE_AT] == AARCH64;
}

int execve(const char *path, char *const argv[], char *const envp[])
{
	char *emulator = getenv("KVMM_EMULATOR");
	char *args[MAX_ARGS] = { emulator, "-0", argv[0] ? argv[0] : (char *)path, (char *)path };

	if (!emulator || !is_emulated(path))
		return syscall(SYS_execve, path, argv, envp);
	for (int i = 1; argv[0] && argv[i] && i + 4 < MAX_ARGS; i++)
		args[i + 3] = argv[i];
	return syscall(SYS_execve, emulator, args, envp);
}

int madvise(void *mem, size_t bytes, int advice)
{
	if (advice == MADV_WIPEONFORK) {
		errno = EINVAL;
		return -1;
	}
	return syscall(SYS_madvise, mem, bytes, advice);
}
