/* Preloaded: counts the calls that change files under a folder, and fails or kills the process at the n-th.
   Armed by crash_arm() from a fork of a benchmark; see crash_points.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char under[PATH_MAX];
static long target = -1, seen = 0, hits = 0;
static int how = 0; /* 0: only counts; SIGKILL: dies; else the errno that the call fails with */
static int lasts = 0; /* every further write fails too, as on a disk that stays full */

void crash_arm(const char *folder, long at, int what, int for_good) {
    strncpy(under, folder, sizeof under - 1);
    target = at, how = what, lasts = for_good, seen = 0, hits = 0;
}
long crash_seen(void) { return seen; }
long crash_hits(void) { return hits; }

static int fails(const char *path) {
    if (target < 0 || !path || strncmp(path, under, strlen(under)) != 0) return 0;
    long number = seen++;
    if (how == 0 || !(number == target || (lasts && number > target))) return 0;
    hits++;
    if (how == SIGKILL) kill(getpid(), SIGKILL), pause();
    errno = how;
    return 1;
}

static int fd_fails(int fd) {
    if (target < 0) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return fails(path);
}

/* A name in a folder that is given by its descriptor. */
static int at_fails(int folder, const char *name) {
    if (target < 0 || !name) return 0;
    if (name[0] == '/') return fails(name);
    char link[64], path[2 * PATH_MAX];
    ssize_t size;
    if (folder == AT_FDCWD) {
        if (!getcwd(path, PATH_MAX)) return 0;
        size = strlen(path);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        if ((size = readlink(link, path, PATH_MAX - 1)) < 0) return 0;
    }
    snprintf(path + size, sizeof path - size, "/%s", name);
    return fails(path);
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return fd_fails(fd) ? -1 : real(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    return fd_fails(fd) ? -1 : real(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    return fd_fails(fd) ? -1 : real(fd, data, size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return fd_fails(fd) ? -1 : real(fd, parts, count);
}
int fsync(int fd) {
    REAL(int, "fsync", int);
    return fd_fails(fd) ? -1 : real(fd);
}
int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    return fd_fails(fd) ? -1 : real(fd);
}
int ftruncate64(int fd, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    return fd_fails(fd) ? -1 : real(fd, size);
}
int ftruncate(int fd, off_t size) {
    REAL(int, "ftruncate", int, off_t);
    return fd_fails(fd) ? -1 : real(fd, size);
}
int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return at_fails(AT_FDCWD, to) ? -1 : real(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    return at_fails(b, to) ? -1 : real(a, from, b, to);
}
int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    return at_fails(AT_FDCWD, path) ? -1 : real(path);
}
int unlinkat(int folder, const char *name, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    return at_fails(folder, name) ? -1 : real(folder, name, flags);
}
int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return at_fails(AT_FDCWD, path) ? -1 : real(path, mode);
}
int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    REAL(int, "open64", const char *, int, ...);
    return flags & O_CREAT && at_fails(AT_FDCWD, path) ? -1 : real(path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    REAL(int, "openat64", int, const char *, int, ...);
    return flags & O_CREAT && at_fails(folder, path) ? -1 : real(folder, path, flags, mode);
}
