/* Preloaded into every process of a test run: its clock of the day goes by an offset that all of them read from one file.

   Only CLOCK_REALTIME is moved, never CLOCK_MONOTONIC, so waits last as long as ever: those with a deadline of the day
   give the system its own time back. Files that were changed since the run began look changed at the moved time; older
   ones, the packages and the checkout, keep theirs, else every compiled module would be stale.

   A child gets it even where its environment is made anew, unless its file cannot be read there (in a sandbox). No
   process sees the variable: a test may look at its environment. OFFSET_FILE and SELF come from the compiler's command. */

#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#define NS 1000000000LL
#define VARIABLE "LD_PRELOAD"
#define REAL(name) ((__typeof__(name) *)real_##name)

extern char **environ;

struct shared {
    int64_t offset; /* nanoseconds that are added to now */
    int64_t began;  /* when the run began, in nanoseconds of the real clock */
};
static const struct shared still = {0, INT64_MAX};
static const struct shared *moved = &still;

/* --- What the system really has ---------------------------------------------------------------------------------- */

#define EACH_REAL(X)                                                                                                   \
    X(clock_gettime) X(clock_nanosleep) X(sem_timedwait) X(sem_clockwait) X(pthread_cond_timedwait)                    \
    X(pthread_cond_clockwait) X(pthread_mutex_timedlock) X(pthread_mutex_clocklock) X(pthread_rwlock_timedrdlock)      \
    X(pthread_rwlock_timedwrlock) X(cnd_timedwait) X(mtx_timedlock) X(execve) X(execvpe) X(fexecve) X(posix_spawn)     \
    X(posix_spawnp) X(system) X(popen)

#define DECLARE(name) static void *real_##name;
EACH_REAL(DECLARE)

static void find(void) {
    static int found;
    if (found) return;
#define FIND(name) real_##name = dlsym(RTLD_NEXT, #name);
    EACH_REAL(FIND)
    void *newer = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"); /* dlsym gives the oldest of the two */
    if (newer) real_pthread_cond_timedwait = newer;
    found = 1;
}

/* Take our part out of the variable, in place: /proc shows the memory that a process began with, and some programs have a
   getenv of their own. Others may be preloaded besides. */
static void hide(void) {
    for (char **entry = environ; entry && *entry; entry++) {
        char *ours = strncmp(*entry, VARIABLE "=", strlen(VARIABLE "=")) ? NULL : strstr(*entry, SELF);
        if (!ours) continue;
        char *end = ours + strlen(ours), *rest = ours + strlen(SELF);
        while (*rest == ' ' || *rest == ':') rest++;
        memmove(ours, rest, end - rest);
        memset(ours + (end - rest), 0, rest - ours);
        if (ours[0] || ours[-1] != '=') return;
        memset(*entry, 0, strlen(*entry));
        for (; *entry; entry++) entry[0] = entry[1];
        return;
    }
}

__attribute__((constructor)) static void begin(void) {
    find();
    int file = syscall(SYS_openat, AT_FDCWD, OFFSET_FILE, O_RDONLY | O_CLOEXEC, 0);
    if (file >= 0) {
        void *found = mmap(NULL, sizeof(struct shared), PROT_READ, MAP_SHARED, file, 0);
        if (found != MAP_FAILED) moved = found;
        close(file);
    }
    hide();
}

/* --- Reckoning --------------------------------------------------------------------------------------------------- */

static int64_t offset(void) { return __atomic_load_n(&moved->offset, __ATOMIC_RELAXED); }

static void add(struct timespec *moment, int64_t by) {
    int64_t ns = moment->tv_nsec + by % NS;
    moment->tv_sec += by / NS + (ns >= NS) - (ns < 0);
    moment->tv_nsec = ns + (ns < 0 ? NS : 0) - (ns >= NS ? NS : 0);
}

static int of_the_day(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

/* A deadline as the system wants it. `monotonic` is what the caller may mean besides: no machine is up for 30 years. */
static const struct timespec *given_back(const struct timespec *deadline, struct timespec *real) {
    if (!deadline || deadline->tv_sec < 1000000000) return deadline;
    *real = *deadline;
    add(real, -offset());
    return real;
}

/* --- Now --------------------------------------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now) {
    find();
    int failed = REAL(clock_gettime)(clock, now);
    if (!failed && of_the_day(clock)) add(now, offset());
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    if (zone) memset(zone, 0, sizeof(struct timezone));
    if (!now) return 0;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (also) *also = exact.tv_sec;
    return exact.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, now) ? base : 0;
}

/* --- Waits until a moment of the day ------------------------------------------------------------------------------ */

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    struct timespec real;
    find();
    if ((flags & TIMER_ABSTIME) && of_the_day(clock)) until = given_back(until, &real);
    return REAL(clock_nanosleep)(clock, flags, until, left);
}

#define UNTIL(name, type)                                                                                              \
    int name(type *what, const struct timespec *until) {                                                               \
        struct timespec real;                                                                                          \
        find();                                                                                                        \
        return REAL(name)(what, given_back(until, &real));                                                             \
    }
#define BY_CLOCK(name, type)                                                                                           \
    int name(type *what, clockid_t clock, const struct timespec *until) {                                              \
        struct timespec real;                                                                                          \
        find();                                                                                                        \
        return REAL(name)(what, clock, of_the_day(clock) ? given_back(until, &real) : until);                          \
    }

UNTIL(sem_timedwait, sem_t)
BY_CLOCK(sem_clockwait, sem_t)
UNTIL(pthread_mutex_timedlock, pthread_mutex_t)
BY_CLOCK(pthread_mutex_clocklock, pthread_mutex_t)
UNTIL(pthread_rwlock_timedrdlock, pthread_rwlock_t)
UNTIL(pthread_rwlock_timedwrlock, pthread_rwlock_t)
UNTIL(mtx_timedlock, mtx_t)

/* A condition may have been made for the monotonic clock, as Python's are: its deadlines are small numbers. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    struct timespec real;
    find();
    return REAL(pthread_cond_timedwait)(condition, mutex, given_back(until, &real));
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until) {
    struct timespec real;
    find();
    return REAL(pthread_cond_clockwait)(condition, mutex, clock,
                                        of_the_day(clock) ? given_back(until, &real) : until);
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    struct timespec real;
    find();
    return REAL(cnd_timedwait)(condition, mutex, given_back(until, &real));
}

/* --- Times of files ----------------------------------------------------------------------------------------------- */

/* The kernel alone writes ctime, and by the real clock. */
static int of_this_run(int64_t seconds, int64_t ns) { return seconds * NS + ns >= moved->began; }

static int seen(int failed, struct stat *found) {
    if (!failed && of_this_run(found->st_ctim.tv_sec, found->st_ctim.tv_nsec)) {
        add(&found->st_atim, offset());
        add(&found->st_mtim, offset());
        add(&found->st_ctim, offset());
    }
    return failed;
}

static int look(int folder, const char *path, struct stat *found, int flags) {
    return seen(syscall(SYS_newfstatat, folder, path, found, flags), found);
}

/* Where a number is 64 bits wide the "64" functions are the same; programs made for an older libc ask the "__x" ones. */
#define FAMILY(suffix)                                                                                                 \
    int stat##suffix(const char *path, struct stat##suffix *found) {                                                   \
        return look(AT_FDCWD, path, (struct stat *)found, 0);                                                          \
    }                                                                                                                  \
    int lstat##suffix(const char *path, struct stat##suffix *found) {                                                  \
        return look(AT_FDCWD, path, (struct stat *)found, AT_SYMLINK_NOFOLLOW);                                        \
    }                                                                                                                  \
    int fstat##suffix(int file, struct stat##suffix *found) {                                                          \
        return look(file, "", (struct stat *)found, AT_EMPTY_PATH);                                                    \
    }                                                                                                                  \
    int fstatat##suffix(int folder, const char *path, struct stat##suffix *found, int flags) {                         \
        return look(folder, path, (struct stat *)found, flags);                                                        \
    }                                                                                                                  \
    int __xstat##suffix(int version, const char *path, struct stat##suffix *found) {                                   \
        (void)version;                                                                                                 \
        return stat##suffix(path, found);                                                                              \
    }                                                                                                                  \
    int __lxstat##suffix(int version, const char *path, struct stat##suffix *found) {                                  \
        (void)version;                                                                                                 \
        return lstat##suffix(path, found);                                                                             \
    }                                                                                                                  \
    int __fxstat##suffix(int version, int file, struct stat##suffix *found) {                                          \
        (void)version;                                                                                                 \
        return fstat##suffix(file, found);                                                                             \
    }                                                                                                                  \
    int __fxstatat##suffix(int version, int folder, const char *path, struct stat##suffix *found, int flags) {         \
        (void)version;                                                                                                 \
        return fstatat##suffix(folder, path, found, flags);                                                            \
    }
FAMILY()
FAMILY(64)

static void add_to(struct statx_timestamp *moment, int64_t by) {
    struct timespec exact = {moment->tv_sec, moment->tv_nsec};
    add(&exact, by);
    moment->tv_sec = exact.tv_sec;
    moment->tv_nsec = exact.tv_nsec;
}

int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict found) {
    int failed = syscall(SYS_statx, folder, path, flags, mask | STATX_CTIME, found);
    if (!failed && of_this_run(found->stx_ctime.tv_sec, found->stx_ctime.tv_nsec)) {
        add_to(&found->stx_atime, offset());
        add_to(&found->stx_btime, offset());
        add_to(&found->stx_ctime, offset());
        add_to(&found->stx_mtime, offset());
    }
    return failed;
}

/* Setting a time changes the file, so it will be seen moved: it is put down that much earlier. */
static int put(int folder, const char *path, const struct timespec given[2], int flags) {
    struct timespec real[2];
    if (given) {
        memcpy(real, given, sizeof real);
        for (int i = 0; i < 2; i++)
            if (real[i].tv_nsec != UTIME_NOW && real[i].tv_nsec != UTIME_OMIT) add(&real[i], -offset());
    }
    return syscall(SYS_utimensat, folder, path, given ? real : NULL, flags);
}

static int put_coarse(int folder, const char *path, const struct timeval given[2], int flags) {
    if (!given) return put(folder, path, NULL, flags);
    struct timespec exact[2] = {{given[0].tv_sec, given[0].tv_usec * 1000}, {given[1].tv_sec, given[1].tv_usec * 1000}};
    return put(folder, path, exact, flags);
}

int utimensat(int folder, const char *path, const struct timespec given[2], int flags) {
    return put(folder, path, given, flags);
}
int futimens(int file, const struct timespec given[2]) { return put(file, NULL, given, 0); }
int futimes(int file, const struct timeval given[2]) { return put_coarse(file, NULL, given, 0); }
int futimesat(int folder, const char *path, const struct timeval given[2]) {
    return put_coarse(folder, path, given, 0);
}
int utimes(const char *path, const struct timeval given[2]) { return put_coarse(AT_FDCWD, path, given, 0); }
int lutimes(const char *path, const struct timeval given[2]) {
    return put_coarse(AT_FDCWD, path, given, AT_SYMLINK_NOFOLLOW);
}
int utime(const char *path, const struct utimbuf *given) {
    struct timeval both[2];
    if (given) {
        both[0] = (struct timeval){given->actime, 0};
        both[1] = (struct timeval){given->modtime, 0};
    }
    return put_coarse(AT_FDCWD, path, given ? both : NULL, 0);
}

/* --- Children ------------------------------------------------------------------------------------------------------ */

/* The loader complains where it cannot read us, and a child of a sandbox cannot. */
static int is_readable(void) {
    int kept = errno, file = syscall(SYS_openat, AT_FDCWD, SELF, O_RDONLY | O_CLOEXEC, 0);
    if (file >= 0) close(file);
    errno = kept;
    return file >= 0;
}

static size_t size_of(char *const list[]) {
    size_t size = 0;
    while (list && list[size]) size++;
    return size;
}

static int names_it(const char *entry) { return !strncmp(entry, VARIABLE "=", strlen(VARIABLE "=")); }

/* In the frame of whoever calls it: between vfork and exec nothing may be allocated. */
#define WITH_US(given, made)                                                                                           \
    char **made = (char **)(given);                                                                                    \
    if (is_readable()) {                                                                                               \
        size_t size = size_of(given), kept = 0;                                                                        \
        const char *others = "";                                                                                       \
        made = alloca((size + 2) * sizeof *made);                                                                      \
        for (size_t i = 0; i < size; i++)                                                                              \
            if (names_it((given)[i])) others = (given)[i] + strlen(VARIABLE "=");                                      \
            else made[kept++] = (given)[i];                                                                            \
        char *entry = alloca(strlen(others) + sizeof VARIABLE "=" SELF ":");                                           \
        strcpy(entry, VARIABLE "=" SELF);                                                                              \
        if (*others && !strstr(others, SELF)) strcat(strcat(entry, ":"), others);                                      \
        made[kept++] = entry;                                                                                          \
        made[kept] = NULL;                                                                                             \
    }

int execve(const char *path, char *const argv[], char *const envp[]) {
    WITH_US(envp, all)
    return REAL(execve)(path, argv, all);
}
int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }
int execvpe(const char *file, char *const argv[], char *const envp[]) {
    WITH_US(envp, all)
    return REAL(execvpe)(file, argv, all);
}
int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }
int fexecve(int file, char *const argv[], char *const envp[]) {
    WITH_US(envp, all)
    return REAL(fexecve)(file, argv, all);
}

/* The arguments of the "l" functions as a list, and what stands behind the NULL that ends them. */
#define LISTED(first, last, argv, rest)                                                                                \
    va_list rest;                                                                                                      \
    size_t number = 1;                                                                                                 \
    va_start(rest, last);                                                                                              \
    while (va_arg(rest, char *)) number++;                                                                             \
    va_end(rest);                                                                                                      \
    char **argv = alloca((number + 1) * sizeof *argv);                                                                 \
    argv[0] = (char *)(first);                                                                                         \
    va_start(rest, last);                                                                                              \
    for (size_t i = 1; i <= number; i++) argv[i] = va_arg(rest, char *);

int execl(const char *path, const char *first, ...) {
    LISTED(first, first, argv, rest)
    va_end(rest);
    return execve(path, argv, environ);
}
int execlp(const char *file, const char *first, ...) {
    LISTED(first, first, argv, rest)
    va_end(rest);
    return execvpe(file, argv, environ);
}
int execle(const char *path, const char *first, ...) {
    LISTED(first, first, argv, rest)
    char **envp = va_arg(rest, char **);
    va_end(rest);
    return execve(path, argv, envp);
}

int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
                char *const argv[], char *const envp[]) {
    WITH_US(envp, all)
    return REAL(posix_spawn)(child, path, actions, how, argv, all);
}
int posix_spawnp(pid_t *child, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *how, char *const argv[], char *const envp[]) {
    WITH_US(envp, all)
    return REAL(posix_spawnp)(child, file, actions, how, argv, all);
}

int system(const char *command) {
    WITH_US(environ, all)
    char **kept = environ;
    environ = all;
    int ended = REAL(system)(command);
    environ = kept;
    return ended;
}
FILE *popen(const char *command, const char *mode) {
    WITH_US(environ, all)
    char **kept = environ;
    environ = all;
    FILE *pipe = REAL(popen)(command, mode);
    environ = kept;
    return pipe;
}
