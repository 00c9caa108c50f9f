/* Notes each fsync of a watched file: preloaded into the process under test.
 *
 * FSYNC_WATCH  the end of the file's name, e.g. "bus.db-wal"
 * FSYNC_LOG    one line per fsync: "<begin> <end>" in nanoseconds of CLOCK_MONOTONIC
 * FSYNC_FAIL   while this file exists, fsyncs of the watched file fail with EIO
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

static int watched(int fd) {
    const char *suffix = getenv("FSYNC_WATCH");
    char link[64], path[4096];
    if (suffix == NULL) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    size_t tail = strlen(suffix);
    return (size_t)length >= tail && strcmp(path + length - tail, suffix) == 0;
}

static int sync_and_note(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (!watched(fd)) return real(fd);
    if (access(getenv("FSYNC_FAIL"), F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    long long began = now_ns();
    int result = real(fd);
    char line[64];
    int size = snprintf(line, sizeof line, "%lld %lld\n", began, now_ns());
    int log = open(getenv("FSYNC_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (log < 0 || write(log, line, size) != size) abort();
    close(log);
    return result;
}

int fsync(int fd) { return sync_and_note("fsync", fd); }
int fdatasync(int fd) { return sync_and_note("fdatasync", fd); }
