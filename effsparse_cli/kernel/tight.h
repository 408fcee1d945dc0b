/* Bits of weights that are too many for the processor's cache: words that are zero are left out of their rows, so that
   what is written and read again shrinks with what is kept. An index has one bit for each word of a row, and each row
   knows where its words begin and how many bits they have. */

#define WIDEST_TIGHT (isize)4096 /* words of a row */
#define UNIT 32                  /* words that are read at once: so many may follow where anything ends */
#define START_BITS 44            /* of where a row begins; above them is what it keeps */

static isize large = 1 << 20, narrow = 16; /* words of all weights, and of a row, from which on they are tight */

/* How many words are left. The row has as much room as if none were left out. `columns` are those in use so far. */
static isize tighten_plain(const u64 *row, isize width, u64 *into, u64 *index, u64 *columns) {
    isize n = 0;
    or_into(columns, row, width);
    for (isize i = 0; i < width; i++) {
        if (!(i & 63)) index[i >> 6] = 0;
        index[i >> 6] |= (u64)(row[i] != 0) << (i & 63);
        into[n] = row[i], n += row[i] != 0;
    }
    return n;
}

#if defined(__x86_64__)
#define UNITS __attribute__((target("avx512f,popcnt")))
#define COUNTED __attribute__((target("avx512f,avx512vpopcntdq,popcnt")))

UNITS static isize tighten_widest(const u64 *row, isize width, u64 *into, u64 *index, u64 *columns) {
    isize n = 0, i = 0;
    u64 kept = 0;
    for (; i + 8 <= width; i += 8) {
        __m512i words = _mm512_loadu_si512(row + i);
        __mmask8 some = _mm512_test_epi64_mask(words, words);
        _mm512_storeu_si512(into + n, _mm512_maskz_compress_epi64(some, words));
        _mm512_storeu_si512(columns + i, _mm512_or_si512(_mm512_loadu_si512(columns + i), words));
        kept |= (u64)some << (i & 63), n += __builtin_popcountll(some);
        if ((i & 63) == 56) index[i >> 6] = kept, kept = 0;
    }
    for (; i < width; i++) {
        into[n] = row[i], n += row[i] != 0, kept |= (u64)(row[i] != 0) << (i & 63), columns[i] |= row[i];
        if ((i & 63) == 63) index[i >> 6] = kept, kept = 0;
    }
    if (width & 63) index[width >> 6] = kept;
    return n;
}

/* The words from `i` on, a whole unit, with zeros where some were left out; goes on to those behind them. */
typedef struct { __m512i at[UNIT / 8]; } Unit;

UNITS static inline __m512i expand(const u64 *from, u64 kept) {
    return _mm512_maskz_expand_epi64((__mmask8)kept, _mm512_loadu_si512(from));
}
UNITS static inline Unit next_unit(const u64 **from, const u64 *index, isize i) {
    u64 kept = index[i >> 6] >> (i & 63);
    const u64 *first = *from, *second = first + __builtin_popcountll(kept & 0xff);
    const u64 *third = first + __builtin_popcountll(kept & 0xffff), *last = first + __builtin_popcountll(kept & 0xffffff);
    *from = first + __builtin_popcountll(kept & 0xffffffff);
    return (Unit){{expand(first, kept), expand(second, kept >> 8), expand(third, kept >> 16), expand(last, kept >> 24)}};
}
UNITS static inline Unit unit_at(const u64 *words) {
    return (Unit){{_mm512_loadu_si512(words), _mm512_loadu_si512(words + 8), _mm512_loadu_si512(words + 16),
                   _mm512_loadu_si512(words + 24)}};
}
UNITS static inline Unit and_unit(Unit a, Unit b) {
    for (int i = 0; i < UNIT / 8; i++) a.at[i] = _mm512_and_si512(a.at[i], b.at[i]);
    return a;
}
UNITS static inline Unit or_unit(Unit a, Unit b) {
    for (int i = 0; i < UNIT / 8; i++) a.at[i] = _mm512_or_si512(a.at[i], b.at[i]);
    return a;
}
UNITS static inline Unit not_unit(Unit a) {
    for (int i = 0; i < UNIT / 8; i++) a.at[i] = _mm512_xor_si512(a.at[i], _mm512_set1_epi64(-1));
    return a;
}
UNITS static inline __m512i any_of(Unit a) {
    return _mm512_or_si512(_mm512_or_si512(a.at[0], a.at[1]), _mm512_or_si512(a.at[2], a.at[3]));
}
COUNTED static inline __m512i count_of(Unit a) {
    for (int i = 0; i < UNIT / 8; i++) a.at[i] = _mm512_popcnt_epi64(a.at[i]);
    return _mm512_add_epi64(_mm512_add_epi64(a.at[0], a.at[1]), _mm512_add_epi64(a.at[2], a.at[3]));
}
#else
#define tighten_widest tighten_plain
#endif
