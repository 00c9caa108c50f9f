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

/* Turn one head's scores into bf16 weights (unnormalised); returns their fp32 sum. */
static float soften(const float *scores, int tokens, int padded, float scale, bf16 *weights) {
    float top = scores[0];
    for (int t = 1; t < tokens; t++) top = scores[t] > top ? scores[t] : top;
    float sums[LANES] = {0};
    for (int t = 0; t < padded; t += LANES)
        for (int l = 0; l < LANES; l++) {
            float weight = exponential((scores[t + l] - top) * scale);
            bf16 rounded = t + l < tokens ? to_bf16(weight) : 0;
            weights[t + l] = rounded;
            sums[l] += from_bf16(rounded);
        }
    float sum = 0.0f;
    for (int l = 0; l < LANES; l++) sum += sums[l];
    return sum;
}

/* q: [GROUP][HEAD_DIM]; out: the same. scores and weights: GROUP x width scratch. */
static void attend(const bf16 *q, Paged keys, Paged values, int tokens, float *scores,
                   bf16 *weights, int width, bf16 *out) {
    int blocks = (tokens + BLOCK - 1) / BLOCK, b = 0;
    for (; b + 2 <= blocks; b += 2) score_blocks(q, &keys, b, 2, scores, width);
    if (b < blocks) score_blocks(q, &keys, b, 1, scores, width);

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
