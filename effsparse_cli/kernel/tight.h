/* Bits of weights that are too many for the processor's cache: words that are zero are left out of their rows, so that
   what is written and read again shrinks with what is kept. An index has one bit for each word of a row, and each row
   knows where its words begin. */

#define ENTIRE ((u64)1 << 63)    /* beside where a row begins: nothing is left out */
#define WIDEST_TIGHT (isize)4096 /* words of a row */

static isize large = 1 << 20, narrow = 16; /* words of all weights, and of a row, from which on they are tight */

static int is_tight(isize width) { return width >= narrow && width <= WIDEST_TIGHT; }

/* How many words are left. The row has as much room as if none were left out. */
static isize tighten_plain(const u64 *row, isize width, u64 *into, u64 *index) {
    isize n = 0;
    for (isize i = 0; i < width; i++) {
        if (!(i & 63)) index[i >> 6] = 0;
        index[i >> 6] |= (u64)(row[i] != 0) << (i & 63);
        into[n] = row[i], n += row[i] != 0;
    }
    return n;
}

#if defined(__x86_64__)
__attribute__((target("avx512f,popcnt"))) static isize tighten_widest(const u64 *row, isize width, u64 *into,
                                                                      u64 *index) {
    isize n = 0;
    memset(index, 0, 8 * WORDS(width));
    for (isize i = 0; i < width; i += 8) {
        __mmask8 there = width - i < 8 ? (__mmask8)((1 << (width - i)) - 1) : 0xff;
        __m512i words = _mm512_maskz_loadu_epi64(there, row + i);
        u64 kept = _mm512_test_epi64_mask(words, words);
        _mm512_mask_storeu_epi64(into + n, there, _mm512_maskz_compress_epi64((__mmask8)kept, words));
        index[i >> 6] |= kept << (i & 63), n += __builtin_popcountll(kept);
    }
    return n;
}
#else
#define tighten_widest tighten_plain
#endif

/* All words that are left in a row, each with its place. Four at a time, zeros at place zero behind the last: how many
   there are is nothing that a processor could foresee, and guessing wrong takes as long as ten of them. */
#define EACH_WORD(row, width, at, word, ...)                                                                           \
    for (isize j = 0; j < WORDS(width); j++) {                                                                         \
        u64 left = row.index[j];                                                                                       \
        do                                                                                                             \
            for (int step = 0; step < 4; step++) {                                                                     \
                u64 some = -(u64)(left != 0), word = *row.words & some;                                                \
                isize at = (isize)((64 * j + __builtin_ctzll(left | (u64)1 << 63)) & some);                            \
                __VA_ARGS__;                                                                                           \
                row.words -= (int64_t)some, left &= left - 1;                                                          \
            }                                                                                                          \
        while (left);                                                                                                  \
    }

/* With zeros where words were left out; `room` is for as many as a row has. */
static const u64 *loosen(const u64 *from, const u64 *index, isize width, u64 *room) {
    memset(room, 0, 8 * width);
    for (isize j = 0; j < WORDS(width); j++) EACH_BIT(index[j], b) room[64 * j + b] = *from++;
    return room;
}
