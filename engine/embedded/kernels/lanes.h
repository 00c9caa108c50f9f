/* Sixteen fp32 lanes and the three ways to multiply pairs of bf16 into them.
 *
 * dot2(acc, b, a) is, in every lane, acc + a.low*b.low + a.high*b.high with products and sums in
 * fp32. Every reduction of the engine is a chain of dot2 in ascending k: one order, whatever the
 * number of rows beside it. That is what makes results independent of the batch.
 *
 * Compiled with -ffp-contract=off: what is fused is fused here, by name, and nowhere else.
 */
#ifndef TRIMTAB_LANES_H
#define TRIMTAB_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define INLINE static inline __attribute__((always_inline))

typedef uint16_t bf16;

#if defined(__AVX512BF16__) && defined(__AVX512F__) && !defined(TRIMTAB_PORTABLE)
#include <immintrin.h>
#define NUMERIC_CLASS "bf16-dpbf16-fp32acc-fixed-order/avx512_bf16"
#define TILE_ROWS 12
#define TILE_VECS 2

typedef __m512 lanes;

INLINE lanes zero_lanes(void) { return _mm512_setzero_ps(); }
INLINE void store_lanes(float *to, lanes v) { _mm512_storeu_ps(to, v); }
INLINE lanes dot2(lanes acc, const bf16 *pairs, uint32_t pair) {
    return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_loadu_si512(pairs),
                            (__m512bh)_mm512_set1_epi32((int32_t)pair));
}

#else

typedef float lanes8 __attribute__((vector_size(32)));
typedef uint32_t words8 __attribute__((vector_size(32)));
typedef struct { lanes8 low, high; } lanes;

#define TILE_ROWS 4
#define TILE_VECS 1

#if defined(__AVX2__) && defined(__FMA__) && !defined(TRIMTAB_PORTABLE)
#include <immintrin.h>
#define NUMERIC_CLASS "bf16-fma-fp32acc-fixed-order/avx2_fma"
INLINE lanes8 multiply_add(lanes8 a, lanes8 b, lanes8 acc) {
    return (lanes8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)acc);
}
#else
#define NUMERIC_CLASS "bf16-mul-add-fp32acc-fixed-order/portable"
INLINE lanes8 multiply_add(lanes8 a, lanes8 b, lanes8 acc) { return acc + a * b; }
#endif

INLINE lanes zero_lanes(void) { return (lanes){(lanes8){0}, (lanes8){0}}; }
INLINE void store_lanes(float *to, lanes v) { memcpy(to, &v, sizeof v); }
INLINE lanes8 half_dot2(lanes8 acc, const bf16 *pairs, lanes8 even, lanes8 odd) {
    words8 both;
    memcpy(&both, pairs, sizeof both);
    acc = multiply_add(even, (lanes8)(both << 16), acc);
    return multiply_add(odd, (lanes8)(both & 0xffff0000u), acc);
}
INLINE lanes dot2(lanes acc, const bf16 *pairs, uint32_t pair) {
    uint32_t low = pair << 16, high = pair & 0xffff0000u;
    float a0, a1;
    memcpy(&a0, &low, 4);
    memcpy(&a1, &high, 4);
    lanes8 even = a0 - (lanes8){0}, odd = a1 - (lanes8){0};
    return (lanes){half_dot2(acc.low, pairs, even, odd),
                   half_dot2(acc.high, pairs + LANES, even, odd)};
}
#endif

INLINE uint32_t pair_at(const bf16 *values) {
    uint32_t pair;
    memcpy(&pair, values, 4);
    return pair;
}

/* Round to nearest even. Finite inputs only. */
INLINE bf16 to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

INLINE float from_bf16(bf16 value) {
    uint32_t bits = (uint32_t)value << 16;
    float wide;
    memcpy(&wide, &bits, 4);
    return wide;
}

/* e^x to 2 ulp for -87 <= x <= 88, clamped outside: Cody-Waite reduction, degree 6 Taylor.
 * Plain arithmetic in a fixed order, so a vectorised loop and its remainder agree to the bit. */
INLINE float exponential(float x) {
    x = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
    float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t bits = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, 4);
    return p * power;
}

#endif
