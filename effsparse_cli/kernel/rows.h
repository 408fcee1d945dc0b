/* A weight as rows of bits: what rows keep, and which columns they have in use. */

/* The last three are for tight ones: `columns` are those that any row has in use. */
typedef struct { isize groups, channels, taps, rows, width; const u64 *words, *index, *starts, *columns; } Rows;

static Rows rows_of(const Py_buffer *words, isize groups, isize channels, isize taps) {
    isize width = WORDS(channels * taps);
    return (Rows){groups, channels, taps, width ? words->len / 8 / width / groups : 0, width, .words = words->buf};
}

/* For a pattern of columns, or so many. */
static u64 *new_columns(Arena *arena, const Rows *w, isize count) { return take(arena, 8 * (count * w->width + UNIT)); }

static const u64 *index_of(const Rows *w, isize k) { return w->index + k * WORDS(w->width); }
static const u64 *start_of(const Rows *w, isize k) {
    return w->words + (w->index ? w->starts[k] & (((u64)1 << START_BITS) - 1) : (u64)(k * w->width));
}

/* What a tight row keeps. */
static isize kept_in(const Rows *w, isize k) { return (isize)(w->starts[k] >> START_BITS); }

/* Is it known, without a look at its words, that a row keeps nothing? */
static int is_bare(const Rows *w, isize k) { return w->index && !kept_in(w, k); }

/* Through the words of a row that are not zero. */
typedef struct { const u64 *from, *index; isize first, width; u64 left, word; isize at; } Cursor;

static inline Cursor row_at(const Rows *w, isize k) {
    const u64 *index = w->index ? index_of(w, k) : NULL;
    return (Cursor){.from = start_of(w, k), .index = index, .width = w->width, .left = index ? *index : 0};
}

static inline int next_word(Cursor *c) {
    if (!c->index) {
        isize i = c->first;
        while (i < c->width && !c->from[i]) i++;
        c->first = i + 1;
        return i < c->width ? c->at = i, c->word = c->from[i], 1 : 0;
    }
    for (; !c->left; c->left = c->index[c->first >> 6])
        if ((c->first += 64) >= c->width) return 0;
    c->at = c->first + __builtin_ctzll(c->left), c->left &= c->left - 1, c->word = *c->from++;
    return 1;
}

#define EACH_WORD(w, k, c) for (Cursor c = row_at(w, k); next_word(&c);)

static int keeps_any(const Rows *w, isize k) {
    if (w->index) return !is_bare(w, k);
    Cursor row = row_at(w, k);
    return next_word(&row);
}

/* Is anything kept in a row, at the columns of a pattern? */

static int meets_plain(const Rows *w, isize k, const u64 *pattern) {
    if (!w->index) return meets(start_of(w, k), pattern, w->width);
    EACH_WORD(w, k, c) if (c.word & pattern[c.at]) return 1;
    return 0;
}

/* Of some rows, the columns that they have in use. */

static void or_plain(const Rows *w, const isize *rows, isize n, u64 *columns) {
    for (isize k = 0; k < n; k++) EACH_WORD(w, rows[k], c) columns[c.at] |= c.word;
}

/* Eight rows at a time, the last one again where there are fewer: what is known of the columns is read and written for
   all of them at once. */
CLONED static void or_loose(const Rows *w, const isize *rows, isize n, u64 *restrict columns) {
    isize width = w->width;
    for (isize k = 0; k < n; k += 8) {
        const u64 *a[8];
        for (int i = 0; i < 8; i++) a[i] = w->words + rows[k + i < n ? k + i : n - 1] * width;
        for (isize i = 0; i < width; i++)
            columns[i] |= a[0][i] | a[1][i] | a[2][i] | a[3][i] | a[4][i] | a[5][i] | a[6][i] | a[7][i];
    }
}

/* Who has a source, who a target, and how many have. */

typedef struct { const u64 *source, *target, *missed; } Ends; /* for each group, for each row and for each connection */

static const u64 *source_of(const Rows *w, const Ends *e, isize k) {
    return e->source ? e->source + k / w->rows * w->width : NULL;
}
static const u64 *missed_of(const Rows *w, const Ends *e, isize k) { return e->missed ? e->missed + k * w->width : NULL; }

/* Of one row: how many are kept, have a source, a target, both, and are active. */
static inline __attribute__((always_inline)) void add_row(isize kept, isize with_source, isize active, u64 to,
                                                          isize *found) {
    found[0] += kept, found[1] += with_source, found[2] += to ? kept : 0, found[3] += to ? with_source : 0;
    found[4] += to ? active : 0, found[5] += !to || !active;
}

#define TALLY(name, processor)                                                                                         \
    processor static void name(const Rows *w, const Ends *e, isize *found) {                                           \
        for (isize k = 0; k < w->groups * w->rows; k++) {                                                              \
            const u64 *row = w->words + k * w->width, *from = source_of(w, e, k), *missed = missed_of(w, e, k);        \
            isize kept = 0, with_source = 0, active = 0;                                                               \
            u64 to = e->target ? e->target[k] : 1;                                                                     \
            for (isize i = 0; !from && i < w->width; i++) kept += __builtin_popcountll(row[i]);                        \
            for (isize i = 0; from && i < w->width; i++) {                                                             \
                kept += __builtin_popcountll(row[i]);                                                                  \
                with_source += __builtin_popcountll(row[i] & from[i]);                                                 \
            }                                                                                                          \
            if (!from) with_source = kept;                                                                             \
            if (to && missed)                                                                                          \
                for (isize i = 0; i < w->width; i++)                                                                   \
                    active += __builtin_popcountll(row[i] & (from ? from[i] : ~(u64)0) & ~missed[i]);                  \
            else active = with_source;                                                                                 \
            add_row(kept, with_source, active, to, found);                                                             \
        }                                                                                                              \
    }
TALLY(tally_plain, POPCOUNT)

/* Without sources, and where nothing is missed, nobody has to look at the words. */
static void tally_kept(const Rows *w, const u64 *target, isize *found) {
    for (isize k = 0; k < w->groups * w->rows; k++) {
        isize kept = kept_in(w, k);
        add_row(kept, kept, kept, target ? target[k] : 1, found);
    }
}

POPCOUNT static void tally_tight(const Rows *w, const Ends *e, isize *found) {
    for (isize k = 0; k < w->groups * w->rows; k++) {
        const u64 *from = source_of(w, e, k), *missed = missed_of(w, e, k);
        isize kept = 0, with_source = 0, active = 0;
        EACH_WORD(w, k, c) {
            u64 joined = from ? c.word & from[c.at] : c.word;
            kept += __builtin_popcountll(c.word), with_source += __builtin_popcountll(joined);
            active += __builtin_popcountll(missed ? joined & ~missed[c.at] : joined);
        }
        add_row(kept, with_source, active, e->target ? e->target[k] : 1, found);
    }
}

#if defined(__x86_64__)
TALLY(tally_widest, __attribute__((target("avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt"))))

UNITS static int meets_units(const Rows *w, isize k, const u64 *pattern) {
    const u64 *from = start_of(w, k), *index = index_of(w, k);
    for (isize i = 0; i < w->width; i += UNIT) {
        __m512i found = any_of(and_unit(next_unit(&from, index, i), unit_at(pattern + i)));
        if (_mm512_test_epi64_mask(found, found)) return 1;
    }
    return 0;
}

/* A unit of some 64 rows after another, so that what is known of the columns stays in the processor. */
UNITS static void or_units(const Rows *w, const isize *rows, isize n, u64 *columns) {
    const u64 *from[64], *index[64];
    for (isize first = 0; first < n; first += 64, rows += 64) {
        isize some = n - first < 64 ? n - first : 64;
        for (isize k = 0; k < some; k++) from[k] = start_of(w, rows[k]), index[k] = index_of(w, rows[k]);
        for (isize i = 0; i < w->width; i += UNIT) {
            Unit found = unit_at(columns + i);
            for (isize k = 0; k < some; k++) found = or_unit(found, next_unit(&from[k], index[k], i));
            for (int j = 0; j < UNIT / 8; j++) _mm512_storeu_si512(columns + i + 8 * j, found.at[j]);
        }
    }
}

COUNTED static void tally_units(const Rows *w, const Ends *e, isize *found) {
    __m512i sums[5] = {0};
    for (isize k = 0; k < w->groups * w->rows; k++) {
        if (is_bare(w, k)) { found[5]++; continue; }
        const u64 *words = start_of(w, k), *index = index_of(w, k), *from = source_of(w, e, k), *missed = missed_of(w, e, k);
        __m512i kept = _mm512_setzero_si512(), with_source = kept, active = kept;
        __m512i to = _mm512_set1_epi64(e->target ? (long long)e->target[k] : -1);
        for (isize i = 0; i < w->width; i += UNIT) {
            Unit all = next_unit(&words, index, i), joined = from ? and_unit(all, unit_at(from + i)) : all;
            kept = _mm512_add_epi64(kept, count_of(all)), with_source = _mm512_add_epi64(with_source, count_of(joined));
            if (missed) active = _mm512_add_epi64(active, count_of(and_unit(joined, not_unit(unit_at(missed + i)))));
        }
        if (!missed) active = with_source;
        active = _mm512_and_si512(active, to);
        sums[0] = _mm512_add_epi64(sums[0], kept), sums[1] = _mm512_add_epi64(sums[1], with_source);
        sums[2] = _mm512_add_epi64(sums[2], _mm512_and_si512(kept, to));
        sums[3] = _mm512_add_epi64(sums[3], _mm512_and_si512(with_source, to));
        sums[4] = _mm512_add_epi64(sums[4], active), found[5] += !_mm512_test_epi64_mask(active, active);
    }
    for (int i = 0; i < 5; i++) found[i] += _mm512_reduce_add_epi64(sums[i]);
}

static int counts_vectors(void) {
    return vectors == 2 && __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vl");
}
#else
#define tally_widest tally_plain
#define tally_units tally_tight
#define meets_units meets_plain
#define or_units or_plain
static int counts_vectors(void) { return 0; }
#endif

static int meets_pattern(const Rows *w, isize k, const u64 *pattern) {
    return (w->index && vectors == 2 ? meets_units : meets_plain)(w, k, pattern);
}

static void or_rows(const Rows *w, const isize *rows, isize n, u64 *columns) {
    (!w->index ? or_loose : vectors == 2 ? or_units : or_plain)(w, rows, n, columns);
}

static void run_tally(const Rows *w, const Ends *e, isize *found) {
    int wide = counts_vectors();
    if (w->index && !e->source && !e->missed) tally_kept(w, e->target, found);
    else (w->index ? wide ? tally_units : tally_tight : wide ? tally_widest : tally_plain)(w, e, found);
}

/* Sources or targets are for each connection. */
static void tally_whole(const Rows *w, const u64 *source, isize by_group, const u64 *target, isize by_row,
                        const u64 *missed, isize *found) {
    for (isize k = 0; k < w->groups * w->rows; k++) {
        isize reached = 0;
        for (isize i = 0; i < w->width; i++) {
            u64 kept = w->words[k * w->width + i], with_source = kept, with_target = kept;
            if (source) with_source &= source[(by_group ? k / w->rows : k) * w->width + i];
            if (target) with_target &= target[by_row ? k : k * w->width + i];
            u64 both = with_source & with_target, active = missed ? both & ~missed[k * w->width + i] : both;
            isize number = __builtin_popcountll(active);
            found[0] += __builtin_popcountll(kept), found[1] += __builtin_popcountll(with_source);
            found[2] += __builtin_popcountll(with_target), found[3] += __builtin_popcountll(both);
            found[4] += number, reached += number;
        }
        found[5] += !reached;
    }
}
