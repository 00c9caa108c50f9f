/* A fixed pool of threads that run one function together and meet at barriers.
 *
 * A thread that waits spins briefly (phases of a layer are tens of microseconds) and then sleeps:
 * on a machine that is busy with other processes, spinning would steal the time it waits for.
 */
#ifndef TRIMTAB_POOL_H
#define TRIMTAB_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SPINS 2000

typedef void (*Work)(void *arg, int thread);

typedef struct {
    int threads;
    pthread_t *others;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_uint round;
    atomic_int arrived;
    atomic_uint job;
    Work work;
    void *arg;
    int stopping;
} Pool;

typedef struct {
    Pool *pool;
    int thread;
} Seat;

static inline void breathe(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void await_change(Pool *pool, atomic_uint *counter, unsigned seen) {
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(counter, memory_order_acquire) != seen) return;
        breathe();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(counter) == seen) pthread_cond_wait(&pool->changed, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void announce(Pool *pool, atomic_uint *counter) {
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(counter, 1);
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

/* Every thread of the pool calls this; none returns before all have come. */
static void meet(Pool *pool) {
    if (pool->threads == 1) return;
    unsigned round = atomic_load(&pool->round);
    if (atomic_fetch_add(&pool->arrived, 1) == pool->threads - 1) {
        atomic_store(&pool->arrived, 0);
        announce(pool, &pool->round);
    } else {
        await_change(pool, &pool->round, round);
    }
}

static void *serve(void *arg) {
    Seat seat = *(Seat *)arg;
    Pool *pool = seat.pool;
    free(arg);
    for (unsigned seen = 0;; seen++) {
        await_change(pool, &pool->job, seen);
        if (pool->stopping) return NULL;
        pool->work(pool->arg, seat.thread);
        meet(pool);
    }
}

static void run_together(Pool *pool, Work work, void *arg) {
    pool->work = work;
    pool->arg = arg;
    if (pool->threads > 1) announce(pool, &pool->job);
    work(arg, 0);
    meet(pool);
}

static Pool *open_pool(int threads) {
    Pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->threads = threads;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    pool->others = calloc((size_t)threads, sizeof *pool->others);
    for (int thread = 1; thread < threads; thread++) {
        Seat *seat = malloc(sizeof *seat);
        *seat = (Seat){pool, thread};
        if (pthread_create(&pool->others[thread], NULL, serve, seat)) abort();
    }
    return pool;
}

static void close_pool(Pool *pool) {
    pool->stopping = 1;
    if (pool->threads > 1) announce(pool, &pool->job);
    for (int thread = 1; thread < pool->threads; thread++) pthread_join(pool->others[thread], NULL);
    free(pool->others);
    free(pool);
}

#endif
