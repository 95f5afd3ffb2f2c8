// Loaded into a server before all else (LD_PRELOAD), this lets a test step the server's wall clock: SIGUSR1 sets it an
// hour forward, SIGURG an hour back (Redis has a use of its own for SIGUSR2). CLOCK_MONOTONIC stays true. It is linked
// with no C library, so that it can be loaded with any: glibc's or musl's. The time comes by the raw system call, as the
// library's own function is the one that is replaced here.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t hours;

static void step(int sig) { hours = hours + (sig == SIGUSR1 ? 1 : -1); }

__attribute__((constructor)) static void catch_steps(void) {
	signal(SIGUSR1, step);
	signal(SIGURG, step);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	int failed = (int)syscall(SYS_clock_gettime, clock, now);
	if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += hours * 3600L;
	return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
	struct timespec exact;
	(void)zone;
	int failed = clock_gettime(CLOCK_REALTIME, &exact);
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return failed;
}

time_t time(time_t *now) {
	struct timespec exact;
	clock_gettime(CLOCK_REALTIME, &exact);
	if (now)
		*now = exact.tv_sec;
	return exact.tv_sec;
}
