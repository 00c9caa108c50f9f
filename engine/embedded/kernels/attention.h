/* Paged attention of one query token over its own sequence, GROUP query heads per KV head.
 *
 * A KV block holds 16 tokens of one layer and KV head: keys as [HEAD_DIM/2][16][2], values as
 * [16/2][HEAD_DIM][2], both ready for dot2. Two passes (all scores, then the weighted sum), blocks
 * in ascending order; lanes beyond the query's position have weight exactly 0. So the result
 * depends only on the tokens up to the query, not on the chunk it arrived in.
 */
#ifndef TRIMTAB_ATTENTION_H
#define TRIMTAB_ATTENTION_H

#include "lanes.h"

#define BLOCK LANES
#define BLOCK_VALUES (HEAD_DIM * BLOCK)
#define VALUE_VECS (HEAD_DIM / LANES)

/* One sequence's view of the pool, for one layer and KV head. */
typedef struct {
    const bf16 *pool;
    const int32_t *table;
    size_t stride;
} Paged;

INLINE const bf16 *block_at(const Paged *paged, int index) {
    return paged->pool + (size_t)paged->table[index] * paged->stride;
}

/* Blocks lie anywhere in memory, so the hardware does not foresee them: ask two ahead. */
INLINE void foresee(const Paged *paged, int index, int blocks) {
    if (index >= blocks) return;
    const char *block = (const char *)block_at(paged, index);
    for (size_t at = 0; at < BLOCK_VALUES * sizeof(bf16); at += 64) __builtin_prefetch(block + at, 0, 2);
}

INLINE void score_blocks(const bf16 *q, const Paged *keys, int first, int count, float *scores,
                         int width) {
    lanes acc[2][GROUP];
    const bf16 *block[2];
    for (int b = 0; b < count; b++) block[b] = block_at(keys, first + b);
    for (int b = 0; b < count; b++)
        for (int g = 0; g < GROUP; g++) acc[b][g] = zero_lanes();
    for (int d = 0; d < HEAD_DIM; d += 2)
        for (int g = 0; g < GROUP; g++) {
            uint32_t pair = pair_at(q + g * HEAD_DIM + d);
            for (int b = 0; b < count; b++) acc[b][g] = dot2(acc[b][g], block[b] + d * BLOCK, pair);
        }
    for (int b = 0; b < count; b++)
        for (int g = 0; g < GROUP; g++)
            store_lanes(scores + (size_t)g * width + (first + b) * BLOCK, acc[b][g]);
}

static float highest(const float *values, int padded) {
    float tops[LANES], top;
    memcpy(tops, values, sizeof tops);
    for (int t = LANES; t < padded; t += LANES)
        for (int l = 0; l < LANES; l++)
            tops[l] = values[t + l] > tops[l] ? values[t + l] : tops[l];
    top = tops[0];
    for (int l = 1; l < LANES; l++) top = tops[l] > top ? tops[l] : top;
    return top;
}

/* Turn one head's scores into bf16 weights (unnormalised); returns their fp32 sum. */
static float soften(float *scores, int tokens, int padded, float scale, bf16 *weights) {
    for (int t = tokens; t < padded; t++) scores[t] = scores[0];
    float top = highest(scores, padded), sums[LANES] = {0}, sum = 0.0f;
    for (int t = 0; t < padded; t++)
        weights[t] = to_bf16(exponential((scores[t] - top) * scale));
    for (int t = tokens; t < padded; t++) weights[t] = 0;
    for (int t = 0; t < padded; t += LANES)
        for (int l = 0; l < LANES; l++) sums[l] += from_bf16(weights[t + l]);
    for (int l = 0; l < LANES; l++) sum += sums[l];
    return sum;
}

/* q: [GROUP][HEAD_DIM]; out: the same. scores and weights: GROUP x width scratch. */
static void attend(const bf16 *q, Paged keys, Paged values, int tokens, float *scores,
                   bf16 *weights, int width, bf16 *out) {
    int blocks = (tokens + BLOCK - 1) / BLOCK, b = 0;
    for (; b + 2 <= blocks; b += 2) {
        foresee(&keys, b + 2, blocks);
        foresee(&keys, b + 3, blocks);
        score_blocks(q, &keys, b, 2, scores, width);
    }
    if (b < blocks) score_blocks(q, &keys, b, 1, scores, width);

    foresee(&values, 0, blocks);
    foresee(&values, 1, blocks);
    float sum[GROUP], scale = 1.0f / sqrtf((float)HEAD_DIM);
    for (int g = 0; g < GROUP; g++) {
        size_t at = (size_t)g * width;
        sum[g] = soften(scores + at, tokens, blocks * BLOCK, scale, weights + at);
    }

    lanes acc[GROUP][VALUE_VECS];
    for (int g = 0; g < GROUP; g++)
        for (int v = 0; v < VALUE_VECS; v++) acc[g][v] = zero_lanes();
    for (b = 0; b < blocks; b++) {
        const bf16 *block = block_at(&values, b);
        foresee(&values, b + 2, blocks);
        for (int t = 0; t < BLOCK; t += 2)
            for (int g = 0; g < GROUP; g++) {
                uint32_t pair = pair_at(weights + (size_t)g * width + b * BLOCK + t);
                for (int v = 0; v < VALUE_VECS; v++)
                    acc[g][v] = dot2(acc[g][v], block + t * HEAD_DIM + v * 2 * LANES, pair);
            }
    }
    for (int g = 0; g < GROUP; g++) {
        float wide[HEAD_DIM];
        for (int v = 0; v < VALUE_VECS; v++) store_lanes(wide + v * LANES, acc[g][v]);
        for (int d = 0; d < HEAD_DIM; d++) out[g * HEAD_DIM + d] = to_bf16(wide[d] / sum[g]);
    }
}

#endif
