/* Bits of weights that are too many for the processor's cache: words that are zero are left out of their rows, so that
   what is written and read again shrinks with what is kept. An index has one bit for each word of a row, and each row
   knows where its words begin. */

#define ENTIRE ((u64)1 << 63)    /* beside where a row begins: nothing is left out */
#define WIDEST_TIGHT (isize)4096 /* words of a row */

static isize large = 1 << 20, narrow = 16; /* words of all weights, and of a row, from which on they are tight */

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

/* With zeros where words were left out. */
static void loosen_plain(const u64 *from, const u64 *index, isize width, u64 *room) {
    memset(room, 0, 8 * width);
    for (isize j = 0; j < WORDS(width); j++) EACH_BIT(index[j], b) room[64 * j + b] = *from++;
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

__attribute__((target("avx512f,popcnt"))) static void loosen_widest(const u64 *from, const u64 *index, isize width,
                                                                    u64 *room) {
    for (isize i = 0; i < width; i += 8) {
        __mmask8 there = width - i < 8 ? (__mmask8)((1 << (width - i)) - 1) : 0xff;
        u64 kept = index[i >> 6] >> (i & 63) & 0xff, n = __builtin_popcountll(kept);
        __m512i words = _mm512_maskz_loadu_epi64((__mmask8)((1 << n) - 1), from);
        _mm512_mask_storeu_epi64(room + i, there, _mm512_maskz_expand_epi64((__mmask8)kept, words));
        from += n;
    }
}
#else
#define tighten_widest tighten_plain
#define loosen_widest loosen_plain
#endif

/* `room` is for as many words as a row has. */
static const u64 *loosen(const u64 *from, const u64 *index, isize width, u64 *room) {
    (vectors == 2 ? loosen_widest : loosen_plain)(from, index, width, room);
    return room;
}
