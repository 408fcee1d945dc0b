/* Stored numbers to one bit each, in one pass over memory, and transposition of packed bits. */

#include "kernel.h"

/* `nonzero_word_*` return one bit for each of 64 numbers, set where anything is left of the number under the mask, and
   keep the largest of them: a caller sees from it whether all floats are finite. */

#define NONZERO_WORD(name, type)                                                                                       \
    static inline u64 name(const type *from, type mask, type *largest) {                                               \
        uint8_t flags[64];                                                                                             \
        type numbers[64], highest = *largest;                                                                          \
        u64 word = 0;                                                                                                  \
        memcpy(numbers, from, sizeof numbers); /* which need not be aligned */                                         \
        for (int i = 0; i < 64; i++) {                                                                                 \
            type number = numbers[i] & mask;                                                                           \
            flags[i] = number != 0;                                                                                    \
            highest = number > highest ? number : highest;                                                             \
        }                                                                                                              \
        for (int i = 0; i < 64; i += 8) { /* the multiplication gathers eight flags in the highest byte */             \
            u64 eight;                                                                                                 \
            memcpy(&eight, flags + i, 8);                                                                              \
            word |= (eight * 0x0102040810204080u >> 56) << i;                                                          \
        }                                                                                                              \
        *largest = highest;                                                                                            \
        return word;                                                                                                   \
    }
NONZERO_WORD(nonzero_word_1, uint8_t)
NONZERO_WORD(nonzero_word_2, uint16_t)
NONZERO_WORD(nonzero_word_4, uint32_t)
NONZERO_WORD(nonzero_word_8, u64)

/* numpy_loops.pack. The last numbers of a row are read with those of the next row, and their bits cleared; the very last
   ones are copied to where zeros follow. */
#define PACK(name, target, type, vector, nonzero_word)                                                                 \
    target static void name(const void *numbers, u64 *words, isize rows, isize columns, u64 mask, Packed *result) {    \
        const type *from = numbers, *end = from + rows * columns;                                                      \
        vector largest = {0};                                                                                          \
        isize rest = columns % 64;                                                                                     \
        for (isize row = 0; row < rows; row++, from += rest) {                                                         \
            isize kept = 0;                                                                                            \
            for (isize k = 64; k <= columns; k += 64, from += 64)                                                      \
                kept += __builtin_popcountll(*words++ = nonzero_word(from, (type)mask, &largest));                     \
            if (rest) {                                                                                                \
                type copy[64] = {0};                                                                                   \
                const type *last = end - from >= 64 ? from : memcpy(copy, from, rest * sizeof(type));                  \
                u64 word = nonzero_word(last, (type)mask, &largest) & (((u64)1 << rest) - 1);                          \
                kept += __builtin_popcountll(*words++ = word);                                                         \
            }                                                                                                          \
            result->kept += kept, result->empty_rows += !kept;                                                         \
        }                                                                                                              \
        type lanes[sizeof(vector) / sizeof(type)];                                                                     \
        memcpy(lanes, &largest, sizeof lanes);                                                                         \
        for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)                                                      \
            if (lanes[i] > result->largest) result->largest = lanes[i];                                                \
    }
PACK(pack_1, WITH_VECTORS, uint8_t, uint8_t, nonzero_word_1)
PACK(pack_2, WITH_VECTORS, uint16_t, uint16_t, nonzero_word_2)
PACK(pack_4, WITH_VECTORS, uint32_t, uint32_t, nonzero_word_4)
PACK(pack_8, WITH_VECTORS, u64, u64, nonzero_word_8)

/* With AVX-512 a test of a vector gives its bits at once. */
#if defined(__x86_64__)
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx512bw,popcnt")))
#define NONZERO_WORD_512(name, type, ctype, bits)                                                                      \
    AVX512 static inline u64 name(const type *from, type mask, __m512i *largest) {                                     \
        __m512i all = _mm512_set1_epi##bits((ctype)mask);                                                              \
        u64 word = 0;                                                                                                  \
        for (int k = 0; k < bits / 8; k++) {                                                                           \
            __m512i numbers = _mm512_and_si512(_mm512_loadu_si512((const __m512i *)from + k), all);                    \
            word |= (u64)_mm512_test_epi##bits##_mask(numbers, numbers) << (512 / bits * k % 64);                      \
            *largest = _mm512_max_epu##bits(*largest, numbers);                                                        \
        }                                                                                                              \
        return word;                                                                                                   \
    }
NONZERO_WORD_512(nonzero_word_512_1, uint8_t, char, 8)
NONZERO_WORD_512(nonzero_word_512_2, uint16_t, short, 16)
NONZERO_WORD_512(nonzero_word_512_4, uint32_t, int, 32)
NONZERO_WORD_512(nonzero_word_512_8, u64, long long, 64)
PACK(pack_512_1, AVX512, uint8_t, __m512i, nonzero_word_512_1)
PACK(pack_512_2, AVX512, uint16_t, __m512i, nonzero_word_512_2)
PACK(pack_512_4, AVX512, uint32_t, __m512i, nonzero_word_512_4)
PACK(pack_512_8, AVX512, u64, __m512i, nonzero_word_512_8)
#define HAS_AVX512 (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("popcnt"))
#define CHOOSE(size) (HAS_AVX512 ? pack_512_##size : pack_##size)
#else
#define CHOOSE(size) pack_##size
#endif

/* numpy_loops.pack. Returns 0 for an item size that it does not know. */
int pack_rows(const void *numbers, u64 *words, isize rows, isize columns, int item_size, int ignore_sign, Packed *result) {
    u64 mask = ~(u64)0 >> (64 - 8 * item_size + (ignore_sign != 0));
    switch (item_size) {
    case 1: CHOOSE(1)(numbers, words, rows, columns, mask, result); return 1;
    case 2: CHOOSE(2)(numbers, words, rows, columns, mask, result); return 1;
    case 4: CHOOSE(4)(numbers, words, rows, columns, mask, result); return 1;
    case 8: CHOOSE(8)(numbers, words, rows, columns, mask, result); return 1;
    default: return 0;
    }
}

/* Swap the upper right and the lower left part of blocks of 2 * half bits and rows. */
#define SWAP_QUARTERS(block, half, low_bits)                                                                           \
    for (int base = 0; base < 64; base += 2 * (half))                                                                  \
        for (int k = base; k < base + (half); k++) {                                                                   \
            u64 changed = (block[k] >> (half) ^ block[k + (half)]) & (low_bits);                                       \
            block[k] ^= changed << (half), block[k + (half)] ^= changed;                                               \
        }

/* numpy_loops.transpose, in blocks of 64 x 64 bits: swapping quarters of ever smaller blocks transposes them. 64 blocks
   follow one another down the columns, so that whole cache lines are written. */
void transpose_bits(const u64 *words, u64 *transposed, isize rows, isize columns) {
    isize width = WORDS(columns), height = WORDS(rows);
    u64 block[64];
    for (isize start = 0; start < height; start += 64)
        for (isize j = 0; j < width; j++)
            for (isize i = start; i < start + 64 && i < height; i++) {
                for (isize k = 0; k < 64; k++) block[k] = 64 * i + k < rows ? words[(64 * i + k) * width + j] : 0;
                SWAP_QUARTERS(block, 32, 0x00000000ffffffffu)
                SWAP_QUARTERS(block, 16, 0x0000ffff0000ffffu)
                SWAP_QUARTERS(block, 8, 0x00ff00ff00ff00ffu)
                SWAP_QUARTERS(block, 4, 0x0f0f0f0f0f0f0f0fu)
                SWAP_QUARTERS(block, 2, 0x3333333333333333u)
                SWAP_QUARTERS(block, 1, 0x5555555555555555u)
                for (isize k = 0; k < 64 && 64 * j + k < columns; k++) transposed[(64 * j + k) * height + i] = block[k];
            }
}
