/* Choosing a token from one row of logits.
 *
 * The draw for position p of a request is a function of (seed, p) alone: a counter-based generator
 * (two rounds of the SplitMix64 finaliser), then inversion of the distribution in a fixed order.
 */
#ifndef TRIMTAB_SAMPLE_H
#define TRIMTAB_SAMPLE_H

#include <stdlib.h>

#include "lanes.h"

#define CHUNK 256

typedef struct {
    float temperature, top_p;
    uint64_t seed;
    int64_t position;
} Choice;

typedef struct {
    float weight;
    int32_t token;
} Candidate;

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1). */
static double uniform(uint64_t seed, int64_t position) {
    uint64_t counter = mix(seed + 0x9E3779B97F4A7C15ull) + (uint64_t)position * 0xD1342543DE82EF95ull;
    return (double)(mix(counter + 0x9E3779B97F4A7C15ull) >> 11) * 0x1.0p-53;
}

static int32_t greedy(const float *logits, int vocab) {
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* weights[i] = e^((logit - top) / temperature); sums[c] = sum of chunk c; returns the total. */
static double weigh(const float *logits, int vocab, float temperature, float *weights,
                    double *sums) {
    float tops[LANES], top;
    for (int l = 0; l < LANES; l++) tops[l] = logits[l];
    for (int i = 0; i + LANES <= vocab; i += LANES)
        for (int l = 0; l < LANES; l++)
            tops[l] = logits[i + l] > tops[l] ? logits[i + l] : tops[l];
    top = tops[0];
    for (int l = 1; l < LANES; l++) top = tops[l] > top ? tops[l] : top;
    double total = 0.0;
    for (int from = 0; from < vocab; from += CHUNK) {
        float lanes_sum[LANES] = {0};
        for (int i = from; i < from + CHUNK; i += LANES)
            for (int l = 0; l < LANES; l++) {
                weights[i + l] = exponential((logits[i + l] - top) / temperature);
                lanes_sum[l] += weights[i + l];
            }
        double sum = 0.0;
        for (int l = 0; l < LANES; l++) sum += lanes_sum[l];
        sums[from / CHUNK] = sum;
        total += sum;
    }
    return total;
}

static int32_t invert(const float *weights, const double *sums, int vocab, double mark) {
    int chunk = 0, chunks = vocab / CHUNK;
    while (chunk < chunks - 1 && mark >= sums[chunk]) mark -= sums[chunk++];
    int32_t last = chunk * CHUNK;
    for (int i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++) {
        if (weights[i] <= 0.0f) continue;
        last = i;
        if (mark < weights[i]) return i;
        mark -= weights[i];
    }
    return last;
}

static int heavier(const void *left, const void *right) {
    const Candidate *a = left, *b = right;
    if (a->weight != b->weight) return a->weight < b->weight ? 1 : -1;
    return a->token < b->token ? -1 : 1;
}

/* The nucleus is the smallest set of heaviest tokens that holds top_p of the weight. Tokens below
 * (1 - top_p) / vocab of it weigh less than 1 - top_p together, so they are never in it. */
static int32_t nucleus(const float *weights, int vocab, double total, double top_p, double draw,
                       Candidate *found) {
    double floor = (1.0 - top_p) * total / vocab, held = 0.0;
    int count = 0, kept = 0;
    for (int32_t i = 0; i < vocab; i++)
        if (weights[i] >= floor) found[count++] = (Candidate){weights[i], i};
    qsort(found, (size_t)count, sizeof *found, heavier);
    while (kept < count && held < top_p * total) held += found[kept++].weight;
    double mark = draw * held;
    for (int i = 0; i < kept - 1; i++) {
        if (mark < found[i].weight) return found[i].token;
        mark -= found[i].weight;
    }
    return found[kept > 0 ? kept - 1 : 0].token;
}

/* vocab is a multiple of CHUNK. Scratch: weights and found vocab long, sums vocab / CHUNK. */
static int32_t sample(const float *logits, int vocab, Choice choice, float *weights, double *sums,
                      Candidate *found) {
    if (choice.temperature <= 0.0f) return greedy(logits, vocab);
    double total = weigh(logits, vocab, choice.temperature, weights, sums);
    double draw = uniform(choice.seed, choice.position);
    if (choice.top_p < 1.0f)
        return nucleus(weights, vocab, total, choice.top_p, draw, found);
    return invert(weights, sums, vocab, draw * total);
}

#endif
