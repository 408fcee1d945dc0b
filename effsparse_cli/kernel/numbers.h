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

#define WORD(sixteen)                                                                                                  \
    ((u64)sixteen(from, mask) | (u64)sixteen(from + 16, mask) << 16 | (u64)sixteen(from + 32, mask) << 32 |            \
     (u64)sixteen(from + 48, mask) << 48)

static inline u64 word1(const uint8_t *from, uint8_t mask) { return WORD(sixteen1); }
static inline u64 word2(const uint16_t *from, uint16_t mask) { return WORD(sixteen2); }
static inline u64 word4(const uint32_t *from, uint32_t mask) { return WORD(sixteen4); }
static inline u64 word8(const u64 *from, u64 mask) { return WORD(sixteen8); }

typedef void Pack(const void *numbers, u64 *into, isize rows, isize columns, int is_signed, isize *kept);

/* Numbers need not be aligned. The last ones of a row are read with those of the next, which do not count; where there
   are none, they are copied to where zeros follow. */
#define PACK(name, type, word, target)                                                                                 \
    target static void name(const void *numbers, u64 *into, isize rows, isize columns, int is_signed, isize *kept) {   \
        const type *from = numbers, *end = from + rows * columns;                                                      \
        type mask = (type)(is_signed ? (type)~(type)0 >> 1 : ~(type)0);                                                \
        isize left = columns % 64;                                                                                     \
        for (isize r = 0; r < rows; r++, from += left) {                                                               \
            isize in_row = 0;                                                                                          \
            for (isize k = 64; k <= columns; k += 64, from += 64)                                                      \
                in_row += __builtin_popcountll(*into++ = word(from, mask));                                            \
            if (left) {                                                                                                \
                u64 found;                                                                                             \
                if (end - from >= 64) found = word(from, mask) & (((u64)1 << left) - 1);                               \
                else {                                                                                                 \
                    type last[64] = {0};                                                                               \
                    found = word(memcpy(last, from, left * sizeof(type)), mask);                                       \
                }                                                                                                      \
                in_row += __builtin_popcountll(*into++ = found);                                                       \
            }                                                                                                          \
            kept[0] += in_row, kept[1] += !in_row;                                                                     \
        }                                                                                                              \
    }
PACK(pack1, uint8_t, word1, )
PACK(pack2, uint16_t, word2, )
PACK(pack4, uint32_t, word4, )
PACK(pack8, u64, word8, )

/* The same by wider vectors, where the processor has them: 32 bytes, or 64 and tests that give bits at once. */
#if defined(__x86_64__)
#include <immintrin.h>
#define WIDE __attribute__((target("avx2,popcnt")))
#define WIDEST __attribute__((target("avx512f,avx512bw,popcnt")))
#define LOAD32(k) _mm256_and_si256(_mm256_loadu_si256((const __m256i *)from + (k)), all)
#define NONE32 _mm256_setzero_si256()
#define TEST64(size, k) (u64)_mm512_test_epi##size##_mask(_mm512_loadu_si512((const __m512i *)from + (k)), all)

WIDE static inline u64 wide1(const uint8_t *from, uint8_t mask) {
    __m256i all = _mm256_set1_epi8((char)mask);
    u64 low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(LOAD32(0), NONE32));
    return ~(low | (u64)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(LOAD32(1), NONE32)) << 32);
}
WIDE static inline u64 half2(const uint16_t *from, __m256i all) {
    __m256i both = _mm256_packs_epi16(_mm256_cmpeq_epi16(LOAD32(0), NONE32), _mm256_cmpeq_epi16(LOAD32(1), NONE32));
    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(both, 0xd8));
}
WIDE static inline u64 wide2(const uint16_t *from, uint16_t mask) {
    __m256i all = _mm256_set1_epi16((short)mask);
    return ~(half2(from, all) | half2(from + 32, all) << 32);
}
WIDE static inline u64 half4(const uint32_t *from, __m256i all) {
    __m256i a = _mm256_packs_epi32(_mm256_cmpeq_epi32(LOAD32(0), NONE32), _mm256_cmpeq_epi32(LOAD32(1), NONE32));
    __m256i b = _mm256_packs_epi32(_mm256_cmpeq_epi32(LOAD32(2), NONE32), _mm256_cmpeq_epi32(LOAD32(3), NONE32));
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return (uint32_t)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order));
}
WIDE static inline u64 wide4(const uint32_t *from, uint32_t mask) {
    __m256i all = _mm256_set1_epi32((int)mask);
    return ~(half4(from, all) | half4(from + 32, all) << 32);
}
WIDEST static inline u64 widest1(const uint8_t *from, uint8_t mask) {
    __m512i all = _mm512_set1_epi8((char)mask);
    return TEST64(8, 0);
}
WIDEST static inline u64 widest2(const uint16_t *from, uint16_t mask) {
    __m512i all = _mm512_set1_epi16((short)mask);
    return TEST64(16, 0) | TEST64(16, 1) << 32;
}
WIDEST static inline u64 widest4(const uint32_t *from, uint32_t mask) {
    __m512i all = _mm512_set1_epi32((int)mask);
    return TEST64(32, 0) | TEST64(32, 1) << 16 | TEST64(32, 2) << 32 | TEST64(32, 3) << 48;
}
WIDEST static inline u64 widest8(const u64 *from, u64 mask) {
    __m512i all = _mm512_set1_epi64((long long)mask);
    u64 low = TEST64(64, 0) | TEST64(64, 1) << 8 | TEST64(64, 2) << 16 | TEST64(64, 3) << 24;
    return low | TEST64(64, 4) << 32 | TEST64(64, 5) << 40 | TEST64(64, 6) << 48 | TEST64(64, 7) << 56;
}
PACK(pack1_wide, uint8_t, wide1, WIDE)
PACK(pack2_wide, uint16_t, wide2, WIDE)
PACK(pack4_wide, uint32_t, wide4, WIDE)
PACK(pack8_wide, u64, word8, WIDE)
PACK(pack1_widest, uint8_t, widest1, WIDEST)
PACK(pack2_widest, uint16_t, widest2, WIDEST)
PACK(pack4_widest, uint32_t, widest4, WIDEST)
PACK(pack8_widest, u64, widest8, WIDEST)

static int widest_vectors(void) {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("popcnt")) return 2;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
}
#else
#define pack1_wide pack1
#define pack2_wide pack2
#define pack4_wide pack4
#define pack8_wide pack8
#define pack1_widest pack1
#define pack2_widest pack2
#define pack4_widest pack4
#define pack8_widest pack8
static int widest_vectors(void) { return 0; }
#endif

static Pack *const PACKS[3][4] = {{pack1, pack2, pack4, pack8},
                                  {pack1_wide, pack2_wide, pack4_wide, pack8_wide},
                                  {pack1_widest, pack2_widest, pack4_widest, pack8_widest}};
static int vectors; /* which of these are in use */

static Pack *pack_of(int size) { return PACKS[vectors][size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3]; }

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
