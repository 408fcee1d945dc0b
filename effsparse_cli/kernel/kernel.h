/* Declarations shared by the loops over packed bits. Column k of a row is bit k % 64 of word k / 64, and so is position k
   of a map. Each loop names its equivalent in numpy_loops.py, which specifies it; arguments are checked in Python. */

#ifndef EFFSPARSE_KERNEL_H
#define EFFSPARSE_KERNEL_H

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "needs gcc or clang and a little-endian processor; without this module numpy is used instead"
#endif

/* Compiled once per processor generation; the loader picks a version. */
#if defined(__x86_64__) && defined(__GLIBC__)
#define WITH_POPCOUNT __attribute__((target_clones("popcnt", "default")))
#define WITH_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WITH_POPCOUNT
#define WITH_VECTORS
#endif

typedef uint64_t u64;
typedef ptrdiff_t isize;

enum { EMPTY, FULL }; /* numbers of the first two maps of every table */

#define WORDS(bits) (((bits) + 63) / 64)
#define FOR_EACH_BIT(word, bit)                                                                                        \
    for (u64 bit##_left = (word), bit; bit##_left && (bit = (u64)__builtin_ctzll(bit##_left), 1);                      \
         bit##_left &= bit##_left - 1)

/* pack.c: stored numbers to bits. */

typedef struct {
    isize kept, empty_rows;
    u64 largest; /* bit pattern, without the sign if `ignore_sign` */
} Packed;

int pack_rows(const void *numbers, u64 *words, isize rows, isize columns, int item_size, int ignore_sign, Packed *result);
void transpose_bits(const u64 *words, u64 *transposed, isize rows, isize columns);

/* maps.c: memory, tables of distinct maps, and what a tap reads of a map. */

typedef struct Block { struct Block *previous; size_t size; } Block;
typedef struct { Block *last; char *next; size_t left; int failed; } Arena; /* freed as a whole */

void *arena_calloc(Arena *arena, size_t size);
void arena_free(Arena *arena);

typedef struct {
    isize width, count, capacity, slots;
    u64 *maps;
    int32_t *index, latest;
    int failed;
} MapTable;

int map_table_init(MapTable *table, isize positions);
void map_table_free(MapTable *table);
int32_t map_table_add(MapTable *table, const u64 *map);

typedef struct { /* see numpy_loops.Geometry */
    isize taps, inputs, outputs, last_taps, line_length;
    const uint8_t *always;
    const int64_t *distances;
    const u64 *covers;
    const int32_t *front, *steps, *last;
} Geometry;

typedef struct {
    const Geometry *geometry;
    const u64 *maps;
    isize count, in_words, out_words;
    u64 **cache;
    Arena *arena;
} TapReader;

int tap_reader_init(TapReader *reader, const Geometry *geometry, const u64 *maps, isize words, Arena *arena);
const u64 *read_tap(TapReader *reader, isize map, isize tap);
u64 word_at(const u64 *words, isize count, isize bit);
void or_word_at(u64 *words, isize count, isize bit, u64 value);

static inline void or_words(u64 *into, const u64 *from, isize count) {
    for (isize i = 0; i < count; i++) into[i] |= from[i];
}

static inline int have_common_bit(const u64 *a, const u64 *b, isize count) {
    for (isize i = 0; i < count; i++)
        if (a[i] & b[i]) return 1;
    return 0;
}

/* contraction.c: a weight as rows of bits, and the maps at both of its ends. */

typedef struct { isize groups, channels, taps, rows, width; const u64 *words; } Rows; /* channels and rows per group */
typedef struct { const int32_t *numbers; const u64 *maps; isize words; } Maps; /* no numbers: all full; no maps: only
                                                                                   empty and full ones */

void run_forward(const Rows *rows, TapReader *reader, const Maps *x, int32_t *y, MapTable *table, Arena *arena);
void run_backward(const Rows *rows, TapReader *reader, const Maps *y, int32_t *x, MapTable *table, Arena *arena);
isize find_missed(const Rows *rows, TapReader *reader, const Maps *x, const Maps *y, const MapTable *table, u64 *missed,
                  Arena *arena);
void mark_sources(const Rows *rows, const int32_t *x, u64 *source);

/* tally.c: counts of connections. */

typedef struct {
    const u64 *source, *target, *missed; /* NULL: all, all, none */
    int source_by_group, target_by_row;  /* one row of words per group; one word per row */
} Ends;

PyObject *count_connections(const Rows *rows, const Ends *ends);

#endif
