/* A contraction by a weight: maps forward, maps backward, and the connections that bring nothing to their row's map. */

#include "kernel.h"

#define FEW 64 /* pairs of a map and a tap, of which every one may be looked at beforehand */

static int32_t number_at(const Maps *maps, isize i) { return maps->numbers ? maps->numbers[i] : FULL; }

static u64 *new_columns(const Rows *rows, Arena *arena) { return arena_calloc(arena, 8 * rows->width + 8); }

/* A flag per tap as bits. */
static u64 *pack_taps(const Rows *rows, const uint8_t *flags, Arena *arena) {
    u64 *bits = arena_calloc(arena, 8 * WORDS(rows->taps) + 8);
    for (isize t = 0; bits && t < rows->taps; t++) bits[t >> 6] |= (u64)flags[t] << (t & 63);
    return bits;
}

/* Set the columns of a channel at some taps; NULL for all taps. */
static void mark_channel(const Rows *rows, u64 *columns, isize channel, const u64 *taps) {
    for (isize t = 0; t < rows->taps; t += 64) {
        u64 all = rows->taps - t < 64 ? ((u64)1 << (rows->taps - t)) - 1 : ~(u64)0;
        or_word_at(columns, rows->width, channel * rows->taps + t, taps ? taps[t >> 6] : all);
    }
}

static int has_tap(const Rows *rows, const u64 *columns, isize channel, const u64 *taps) {
    for (isize t = 0; t < rows->taps; t += 64)
        if (word_at(columns, rows->width, channel * rows->taps + t) & taps[t >> 6]) return 1;
    return 0;
}

/* The columns of full channels at taps that read something for every output: a row that keeps one is full. */
static void mark_saturating(const Rows *rows, const Maps *x, isize first, const u64 *always, u64 *columns) {
    memset(columns, 0, 8 * rows->width);
    for (isize c = 0; c < rows->channels; c++)
        if (number_at(x, first + c) == FULL) mark_channel(rows, columns, c, always);
}

/* The union of all that can be read, or NULL if there are many maps: a row that has reached it is done. */
static u64 *find_most(TapReader *reader, const Maps *x, isize channels, Arena *arena) {
    if (reader->count * reader->geometry->taps > FEW) return NULL;
    u64 *most = arena_calloc(arena, 8 * reader->out_words), occurs = 0;
    for (isize i = 0; i < channels; i++) occurs |= (u64)1 << number_at(x, i);
    for (isize m = FULL; most && m < reader->count; m++)
        for (isize t = 0; occurs >> m & 1 && t < reader->geometry->taps; t++)
            or_words(most, read_tap(reader, m, t), reader->out_words);
    return most;
}

/* numpy_loops.forward */
void run_forward(const Rows *w, TapReader *reader, const Maps *x, int32_t *y, MapTable *table, Arena *arena) {
    const uint8_t *flags = reader->geometry->always;
    int all_always = !memchr(flags, 0, w->taps), exact = x->maps || !all_always;
    u64 *saturating = new_columns(w, arena), *always = pack_taps(w, flags, arena);
    u64 *read = arena_calloc(arena, 8 * reader->out_words + 8);
    uint32_t *seen = arena_calloc(arena, 4 * reader->count * w->taps), row_number = 0, taps = (uint32_t)w->taps;
    if (arena->failed) return;
    u64 *most = exact ? find_most(reader, x, w->groups * w->channels, arena) : NULL;
    for (isize k = 0; k < w->groups * w->rows; k++) {
        isize first = k / w->rows * w->channels;
        const u64 *row = w->words + k * w->width;
        if (k % w->rows == 0) mark_saturating(w, x, first, always, saturating);
        y[k] = have_common_bit(row, saturating, w->width) ? FULL : EMPTY;
        if (y[k] == FULL || !exact) continue;
        memset(read, 0, 8 * reader->out_words), row_number++;
        for (isize i = 0; i < w->width; i++) FOR_EACH_BIT(row[i], bit) {
            uint32_t column = (uint32_t)(64 * i + bit), c = column / taps, t = column - c * taps;
            int32_t m = number_at(x, first + c);
            if (m == EMPTY || seen[m * taps + t] == row_number) continue;
            seen[m * taps + t] = row_number;
            or_words(read, read_tap(reader, m, t), reader->out_words);
            if (most && !memcmp(read, most, 8 * reader->out_words)) goto done;
        }
    done:
        y[k] = map_table_add(table, read);
    }
}

/* The union of some rows, eight at a time: the last one is repeated where there are fewer. */
WITH_VECTORS static void or_rows(const Rows *w, const isize *rows, isize count, u64 *restrict columns) {
    isize width = w->width;
    for (isize k = 0; k < count; k += 8) {
        const u64 *a[8];
        for (int i = 0; i < 8; i++) a[i] = w->words + rows[k + i < count ? k + i : count - 1] * width;
        for (isize i = 0; i < width; i++)
            columns[i] |= a[0][i] | a[1][i] | a[2][i] | a[3][i] | a[4][i] | a[5][i] | a[6][i] | a[7][i];
    }
}

/* The columns that the full rows of a group keep. Returns whether these are all, which a few rows often tell. */
static int find_columns(const Rows *w, const Maps *y, isize first, u64 *columns, const u64 *all) {
    isize rows[64], count = 0;
    memset(columns, 0, 8 * w->width);
    for (isize k = first; k < first + w->rows; k++) {
        if (number_at(y, k) == FULL) rows[count++] = k;
        if ((k - first) % 64 < 63) continue;
        or_rows(w, rows, count, columns), count = 0;
        if (!memcmp(columns, all, 8 * w->width)) return 1;
    }
    or_rows(w, rows, count, columns);
    return !memcmp(columns, all, 8 * w->width);
}

/* Add what some columns read of a map to the reads of their channels, where these are not full yet. */
static void read_columns(const Rows *w, TapReader *reader, const u64 *columns, isize map, const int32_t *x, u64 *reads) {
    uint32_t taps = (uint32_t)w->taps;
    for (isize i = 0; i < w->width; i++) FOR_EACH_BIT(columns[i], bit) {
        uint32_t column = (uint32_t)(64 * i + bit), c = column / taps;
        if (x[c] == EMPTY) or_words(reads + c * reader->out_words, read_tap(reader, map, column - c * taps), reader->out_words);
    }
}

/* The rows of a group in the order of their maps; those of map m end at ends[m]. */
static void sort_rows(const Rows *w, const int32_t *y, isize first, isize count, isize *order, isize *ends) {
    memset(ends, 0, sizeof(isize) * (count + 1));
    for (isize k = 0; k < w->rows; k++) ends[y[first + k] + 1]++;
    for (isize m = 0; m < count; m++) ends[m + 1] += ends[m];
    for (isize k = 0; k < w->rows; k++) order[ends[y[first + k]]++] = first + k;
}

/* numpy_loops.backward. Rows with the same map are united before their columns are looked at. */
void run_backward(const Rows *w, TapReader *reader, const Maps *y, int32_t *x, MapTable *table, Arena *arena) {
    const uint8_t *flags = reader->geometry->always;
    int some_always = memchr(flags, 1, w->taps) != NULL;
    u64 *columns = new_columns(w, arena), *always = pack_taps(w, flags, arena), *all = new_columns(w, arena);
    u64 *reads = NULL;
    isize *order = arena_calloc(arena, sizeof(isize) * (w->rows + 1));
    isize *ends = arena_calloc(arena, sizeof(isize) * (reader->count + 1));
    if (arena->failed) return;
    for (isize c = 0; c < w->channels; c++) mark_channel(w, all, c, NULL);
    for (isize g = 0; g < w->groups; g++, x += w->channels) {
        isize first = g * w->rows, left = 0;
        if (find_columns(w, y, first, columns, all) && some_always) {
            for (isize c = 0; c < w->channels; c++) x[c] = FULL;
            continue;
        }
        for (isize c = 0; c < w->channels; c++) left += !(x[c] = has_tap(w, columns, c, always));
        if (!left || (some_always && w->taps == 1 && !y->maps)) continue;
        if (!reads && !(reads = arena_calloc(arena, 8 * w->channels * reader->out_words + 8))) return;
        memset(reads, 0, 8 * w->channels * reader->out_words);
        read_columns(w, reader, columns, FULL, x, reads);
        if (y->maps) sort_rows(w, y->numbers, first, reader->count, order, ends);
        for (isize m = FULL + 1; y->maps && m < reader->count; m++) {
            if (ends[m] == ends[m - 1]) continue;
            memset(columns, 0, 8 * w->width);
            or_rows(w, order + ends[m - 1], ends[m] - ends[m - 1], columns);
            read_columns(w, reader, columns, m, x, reads);
        }
        for (isize c = 0; c < w->channels; c++)
            if (x[c] == EMPTY) x[c] = map_table_add(table, reads + c * reader->out_words);
    }
}

/* What is known of one target map. Connections are looked at one by one until as many have been as there are columns;
   from then on a pattern of all columns of the group is used. */
typedef struct {
    uint8_t *meets; /* for each source map and tap: 0 unknown, 1 yes, 2 no */
    u64 *pattern;
    isize looked_at, group;
    int has_pattern, meets_all;
} Target;

static int is_missed(TapReader *reader, Target *target, const u64 *map, isize source, isize tap) {
    uint8_t *meets = &target->meets[source * reader->geometry->taps + tap];
    if (!*meets) *meets = have_common_bit(read_tap(reader, source, tap), map, reader->out_words) ? 1 : 2;
    return *meets == 2;
}

static int meets_all(TapReader *reader, Target *target, const u64 *map) {
    if (reader->count * reader->geometry->taps > FEW) return 0;
    for (isize m = FULL; m < reader->count; m++)
        for (isize t = 0; t < reader->geometry->taps; t++)
            if (is_missed(reader, target, map, m, t)) return 0;
    return 1;
}

static void fill_pattern(const Rows *w, TapReader *reader, Target *target, const u64 *map, const Maps *x) {
    memset(target->pattern, 0, 8 * w->width);
    for (isize column = 0; column < w->channels * w->taps; column++) {
        int32_t m = number_at(x, target->group * w->channels + column / w->taps);
        if (m != EMPTY && is_missed(reader, target, map, m, column % w->taps))
            target->pattern[column >> 6] |= (u64)1 << (column & 63);
    }
}

/* numpy_loops._find_missed. Returns how many words of `missed` have a bit, or 0 after a failure of the arena. */
isize find_missed(const Rows *w, TapReader *reader, const Maps *x, const Maps *y, const MapTable *table, u64 *missed,
                  Arena *arena) {
    isize found = 0, width = reader->out_words, count = y->maps && width ? y->words / width : 2;
    uint32_t taps = (uint32_t)w->taps;
    Target *targets = arena_calloc(arena, sizeof(Target) * count);
    for (isize k = 0; k < w->groups * w->rows && !arena->failed; k++) {
        isize group = k / w->rows, number = number_at(y, k);
        if (number == EMPTY) continue;
        Target *target = &targets[number];
        const u64 *row = w->words + k * w->width, *map = (y->maps ? y->maps : table->maps) + number * width;
        u64 *into = missed + k * w->width;
        if (!target->meets) {
            if (!(target->meets = arena_calloc(arena, reader->count * taps))) return 0;
            target->meets_all = meets_all(reader, target, map);
        }
        if (target->meets_all) continue;
        if (target->group != group) target->group = group, target->looked_at = target->has_pattern = 0;
        if (target->looked_at >= w->channels * w->taps) {
            if (!target->pattern && !(target->pattern = new_columns(w, arena))) return 0;
            if (!target->has_pattern) fill_pattern(w, reader, target, map, x), target->has_pattern = 1;
            for (isize i = 0; i < w->width; i++) found += (into[i] = row[i] & target->pattern[i]) != 0;
            continue;
        }
        for (isize i = 0; i < w->width; i++) FOR_EACH_BIT(row[i], bit) {
            uint32_t column = (uint32_t)(64 * i + bit), c = column / taps;
            int32_t m = number_at(x, group * w->channels + c);
            target->looked_at++;
            if (m != EMPTY && is_missed(reader, target, map, m, column - c * taps)) into[i] |= (u64)1 << bit, found++;
        }
    }
    return found;
}

/* numpy_loops.meet, its sources: the columns of channels that are not empty, for each group. */
void mark_sources(const Rows *w, const int32_t *x, u64 *source) {
    memset(source, 0, 8 * w->groups * w->width);
    for (isize g = 0; g < w->groups; g++, x += w->channels, source += w->width)
        for (isize c = 0; c < w->channels; c++)
            if (x[c] != EMPTY) mark_channel(w, source, c, NULL);
}
