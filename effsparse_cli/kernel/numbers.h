/* Numbers to bits, and bits turned. */

/* One bit per number: is anything left of it without its sign? Sixteen at a time, whose bits processors with SSE2
   gather themselves. */

#if defined(__SSE2__)
#include <emmintrin.h>
#define LOAD(from, k, mask) _mm_and_si128(_mm_loadu_si128((const __m128i *)(from) + (k)), mask)
#define ZERO _mm_setzero_si128()
#define EVEN(a, b, odd) \
    _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b), (odd) ? 0xdd : 0x88))

static inline unsigned bits_of(__m128i zero) { return ~(unsigned)_mm_movemask_epi8(zero) & 0xffff; }

static inline __m128i zeros2(const void *from, int k, __m128i mask) {
    __m128i a = _mm_cmpeq_epi16(LOAD(from, k, mask), ZERO), b = _mm_cmpeq_epi16(LOAD(from, k + 1, mask), ZERO);
    return _mm_packs_epi16(a, b);
}
static inline __m128i zeros4(const void *from, int k, __m128i mask) {
    __m128i a = _mm_cmpeq_epi32(LOAD(from, k, mask), ZERO), b = _mm_cmpeq_epi32(LOAD(from, k + 1, mask), ZERO);
    return _mm_packs_epi32(a, b);
}
static inline __m128i zeros8(const void *from, int k, __m128i mask) {
    __m128i a = _mm_cmpeq_epi32(LOAD(from, k, mask), ZERO), b = _mm_cmpeq_epi32(LOAD(from, k + 1, mask), ZERO);
    return _mm_and_si128(EVEN(a, b, 0), EVEN(a, b, 1));
}
static inline unsigned sixteen1(const uint8_t *from, uint8_t m) {
    return bits_of(_mm_cmpeq_epi8(LOAD(from, 0, _mm_set1_epi8((char)m)), ZERO));
}
static inline unsigned sixteen2(const uint16_t *from, uint16_t m) {
    return bits_of(zeros2(from, 0, _mm_set1_epi16((short)m)));
}
static inline unsigned sixteen4(const uint32_t *from, uint32_t m) {
    __m128i mask = _mm_set1_epi32((int)m);
    return bits_of(_mm_packs_epi16(zeros4(from, 0, mask), zeros4(from, 2, mask)));
}
static inline unsigned sixteen8(const u64 *from, u64 m) {
    __m128i mask = _mm_set1_epi64x((long long)m);
    __m128i low = _mm_packs_epi32(zeros8(from, 0, mask), zeros8(from, 2, mask));
    return bits_of(_mm_packs_epi16(low, _mm_packs_epi32(zeros8(from, 4, mask), zeros8(from, 6, mask))));
}
#else
#define SIXTEEN(name, type)                                                                                            \
    static inline unsigned name(const type *from, type mask) {                                                         \
        unsigned bits = 0;                                                                                             \
        type all[16];                                                                                                  \
        memcpy(all, from, sizeof all);                                                                                 \
        for (int i = 0; i < 16; i++) bits |= (unsigned)((all[i] & mask) != 0) << i;                                    \
        return bits;                                                                                                   \
    }
SIXTEEN(sixteen1, uint8_t)
SIXTEEN(sixteen2, uint16_t)
SIXTEEN(sixteen4, uint32_t)
SIXTEEN(sixteen8, u64)
#endif

typedef void Pack(const void *numbers, u64 *into, isize rows, isize columns, int is_signed, isize *kept);

#define WORD(sixteen, from, mask)                                                                                      \
    ((u64)sixteen(from, mask) | (u64)sixteen((from) + 16, mask) << 16 | (u64)sixteen((from) + 32, mask) << 32 |        \
     (u64)sixteen((from) + 48, mask) << 48)

/* Numbers need not be aligned; the last ones of a row are copied to where zeros follow. */
#define PACK(name, type, sixteen)                                                                                      \
    POPCOUNT static void name(const void *numbers, u64 *into, isize rows, isize columns, int is_signed, isize *kept) { \
        const type *from = numbers, mask = (type)(is_signed ? (type)~(type)0 >> 1 : ~(type)0);                         \
        for (isize r = 0; r < rows; r++, from += columns % 64) {                                                       \
            isize in_row = 0;                                                                                          \
            for (isize k = 64; k <= columns; k += 64, from += 64)                                                      \
                in_row += __builtin_popcountll(*into++ = WORD(sixteen, from, mask));                                   \
            if (columns % 64) {                                                                                        \
                type last[64] = {0};                                                                                   \
                memcpy(last, from, columns % 64 * sizeof(type));                                                       \
                in_row += __builtin_popcountll(*into++ = WORD(sixteen, last, mask));                                   \
            }                                                                                                          \
            kept[0] += in_row, kept[1] += !in_row;                                                                     \
        }                                                                                                              \
    }
PACK(pack1, uint8_t, sixteen1)
PACK(pack2, uint16_t, sixteen2)
PACK(pack4, uint32_t, sixteen4)
PACK(pack8, u64, sixteen8)

/* Blocks of 64 x 64 bits: halves of rows change places with halves of columns, then quarters, and so on. */
#define EXCHANGE(block, half, lower)                                                                                   \
    for (int base = 0; base < 64; base += 2 * half)                                                                    \
        for (int k = base; k < base + half; k++) {                                                                     \
            u64 changed = (block[k] >> half ^ block[k + half]) & lower;                                                \
            block[k] ^= changed << half, block[k + half] ^= changed;                                                   \
        }

static void run_transpose(const u64 *from, u64 *into, isize rows, isize columns) {
    isize width = WORDS(columns), high = WORDS(rows);
    u64 block[64];
    /* Many blocks, so that whole lines of the cache are filled in every row that they are turned into. */
    for (isize start = 0; start < high; start += 64)
        for (isize j = 0; j < width; j++)
            for (isize i = start; i < start + 64 && i < high; i++) {
                for (isize k = 0; k < 64; k++) block[k] = 64 * i + k < rows ? from[(64 * i + k) * width + j] : 0;
                EXCHANGE(block, 32, 0x00000000ffffffffu)
                EXCHANGE(block, 16, 0x0000ffff0000ffffu)
                EXCHANGE(block, 8, 0x00ff00ff00ff00ffu)
                EXCHANGE(block, 4, 0x0f0f0f0f0f0f0f0fu)
                EXCHANGE(block, 2, 0x3333333333333333u)
                EXCHANGE(block, 1, 0x5555555555555555u)
                for (isize k = 0; k < 64 && 64 * j + k < columns; k++) into[(64 * j + k) * high + i] = block[k];
            }
}
