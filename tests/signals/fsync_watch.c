/* Notes each fsync of the watched files: preloaded into the process under test.
 *
 * FSYNC_WATCH  the ends of the files' paths, with ':' between, e.g. ".db-wal:/bus"
 * FSYNC_LOG    one line per fsync: "<begin> <end> <path>", nanoseconds of CLOCK_MONOTONIC
 * FSYNC_FAIL   while this file exists, fsyncs of the watched files fail with EIO
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int ends_with(const char *path, const char *suffix, size_t size) {
    size_t length = strlen(path);
    return length >= size && strncmp(path + length - size, suffix, size) == 0;
}

static int watched(int fd, char *path, size_t room) {
    const char *suffix = getenv("FSYNC_WATCH");
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, room - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    while (suffix != NULL && *suffix != '\0') {
        size_t size = strcspn(suffix, ":");
        if (ends_with(path, suffix, size)) return 1;
        suffix += suffix[size] == ':' ? size + 1 : size;
    }
    return 0;
}

static int sync_and_note(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    char path[4096], line[4200];
    if (!watched(fd, path, sizeof path)) return real(fd);
    if (access(getenv("FSYNC_FAIL"), F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    long long began = now_ns();
    int result = real(fd);
    int size = snprintf(line, sizeof line, "%lld %lld %s\n", began, now_ns(), path);
    int log = open(getenv("FSYNC_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (log < 0 || write(log, line, size) != size) abort();
    close(log);
    return result;
}

int fsync(int fd) { return sync_and_note("fsync", fd); }
int fdatasync(int fd) { return sync_and_note("fdatasync", fd); }
