/* Matrix product of bf16 rows with packed bf16 weights, accumulated in fp32.
 *
 * Weights [N][K] are packed as [N/32][K/2][32][2]: a panel of 32 outputs, pairs of k adjacent.
 * A tile is up to TILE_ROWS rows by one panel; each output is one chain of dot2 over k, ascending,
 * so an output's bits do not depend on how many rows share its tile.
 */
#ifndef TRIMTAB_PRODUCT_H
#define TRIMTAB_PRODUCT_H

#include "lanes.h"

#define PANEL 32
#define PANEL_VECS (PANEL / LANES)

typedef enum { STORE, ADD, SILU_TIMES } Epilogue;

/* STORE: fp32 to[row][n] = value. ADD: fp32 to[row][n] += value.
 * SILU_TIMES: the panel holds 16 gates, then 16 ups; bf16 to[row][n/2] = silu(gate) * up. */
typedef struct {
    Epilogue epilogue;
    void *to;
    int stride;
} Target;

/* What to ask of memory meanwhile: ``step`` bytes for each pair of k, from ``at``. */
typedef struct {
    const char *at;
    int step;
} Ahead;

INLINE void tile_vecs(const bf16 *a, int stride, const bf16 *panel, int k, int rows, int vecs,
                      float out[][PANEL], int column, Ahead ahead) {
    lanes acc[TILE_ROWS][PANEL_VECS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) acc[r][v] = zero_lanes();
    for (int i = 0; i < k; i += 2) {
        const bf16 *pairs = panel + (size_t)i * PANEL;
        __builtin_prefetch(ahead.at, 0, 2);
        __builtin_prefetch(ahead.at + 64, 0, 2);
        ahead.at += ahead.step;
        for (int r = 0; r < rows; r++) {
            uint32_t pair = pair_at(a + (size_t)r * stride + i);
            for (int v = 0; v < vecs; v++) acc[r][v] = dot2(acc[r][v], pairs + v * 2 * LANES, pair);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) store_lanes(&out[r][column + v * LANES], acc[r][v]);
}

INLINE void tile(const bf16 *a, int stride, const bf16 *panel, int k, int rows,
                 float out[][PANEL], Ahead ahead) {
    for (int v = 0; v < PANEL_VECS; v += TILE_VECS)
        tile_vecs(a, stride, panel + v * 2 * LANES, k, rows, TILE_VECS, out, v * LANES, ahead);
}

static void any_tile(const bf16 *a, int stride, const bf16 *panel, int k, int rows,
                     float out[][PANEL], Ahead ahead) {
#define ROWS(n) case n: tile(a, stride, panel, k, n, out, ahead); break;
    switch (rows) {
        ROWS(1) ROWS(2) ROWS(3) ROWS(4)
#if TILE_ROWS > 4
        ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#endif
    }
#undef ROWS
}

static void put(const Target *target, int row, int panel, const float *values) {
    size_t at = (size_t)row * target->stride;
    if (target->epilogue == SILU_TIMES) {
        bf16 *to = (bf16 *)target->to + at + panel * LANES;
        for (int i = 0; i < LANES; i++) {
            float gate = values[i];
            to[i] = to_bf16(gate / (1.0f + exponential(-gate)) * values[LANES + i]);
        }
        return;
    }
    float *to = (float *)target->to + at + panel * PANEL;
    if (target->epilogue == ADD)
        for (int i = 0; i < PANEL; i++) to[i] += values[i];
    else
        memcpy(to, values, PANEL * sizeof *values);
}

/* A panel is read from memory while the one before it is computed: by the only tile, or half by
 * each of the first two. */
INLINE Ahead next_panel(const bf16 *panel, int k, int tile, int tiles) {
    const char *next = (const char *)(panel + (size_t)PANEL * k);
    if (tiles == 1) return (Ahead){next, 2 * PANEL * sizeof(bf16)};
    return (Ahead){next + (size_t)(tile & 1) * k / 2 * 64, tile < 2 ? 64 : 0};
}

/* This thread's share: a contiguous range of panels, all rows. */
static void product(const bf16 *a, int rows, int k, const bf16 *weights, int n, Target target,
                    int thread, int threads) {
    int panels = n / PANEL;
    int from = panels * thread / threads, until = panels * (thread + 1) / threads;
    int tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    float out[TILE_ROWS][PANEL];
    for (int p = from; p < until; p++) {
        const bf16 *panel = weights + (size_t)p * PANEL * k;
        for (int t = 0; t < tiles; t++) {
            int row = rows * t / tiles, count = rows * (t + 1) / tiles - row;
            any_tile(a + (size_t)row * k, k, panel, k, count, out, next_panel(panel, k, t, tiles));
            for (int r = 0; r < count; r++) put(&target, row + r, p, out[r]);
        }
    }
}

/* to[N/32][K/2][32][2] = from[N][K] */
static void pack(const bf16 *from, int n, int k, bf16 *to) {
    for (int panel = 0; panel < n; panel += PANEL)
        for (int i = 0; i < k; i += 2)
            for (int row = 0; row < PANEL; row++, to += 2)
                memcpy(to, from + (size_t)(panel + row) * k + i, 2 * sizeof *to);
}

#endif
