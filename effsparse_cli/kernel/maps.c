/* Memory that is freed as a whole, tables of distinct maps of positions, and what a tap reads of a map. */

#include "kernel.h"

#define BLOCK_SIZE 65536

/* Zeroed memory, or NULL after setting `failed`. */
void *arena_calloc(Arena *arena, size_t size) {
    size = (size + 15) & ~(size_t)15;
    if (arena->left < size || !arena->last) {
        size_t block_size = size > BLOCK_SIZE ? size : BLOCK_SIZE;
        Block *block = malloc(sizeof *block + block_size);
        if (!block) { arena->failed = 1; return NULL; }
        block->previous = arena->last;
        arena->last = block, arena->next = (char *)(block + 1), arena->left = block_size;
    }
    void *memory = arena->next;
    arena->next += size, arena->left -= size;
    return memset(memory, 0, size);
}

void arena_free(Arena *arena) {
    for (Block *block = arena->last, *previous; block; block = previous) previous = block->previous, free(block);
}

/* A hash table of maps, numbered in order of appearance after the empty and the full one. */

int map_table_init(MapTable *table, isize positions) {
    memset(table, 0, sizeof *table);
    table->width = WORDS(positions), table->count = 2, table->capacity = 16, table->slots = 64;
    table->maps = calloc(table->capacity * table->width + 1, 8), table->index = calloc(table->slots, 4);
    if (!table->maps || !table->index) { table->failed = 1; return 0; }
    u64 *full = table->maps + table->width;
    memset(full, 0xff, 8 * table->width);
    if (positions % 64) full[table->width - 1] = ((u64)1 << positions % 64) - 1;
    return 1;
}

void map_table_free(MapTable *table) { free(table->maps), free(table->index); }

static int is_same_map(const u64 *a, const u64 *b, isize width) {
    return width == 1 ? *a == *b : !memcmp(a, b, 8 * width);
}

static isize find_slot(const MapTable *table, const u64 *map) {
    u64 hash = 0x9e3779b97f4a7c15u;
    for (isize i = 0; i < table->width; i++) hash = (hash ^ map[i]) * 0xff51afd7ed558ccdu, hash ^= hash >> 32;
    isize slot = hash & (table->slots - 1);
    while (table->index[slot] && !is_same_map(table->maps + table->index[slot] * table->width, map, table->width))
        slot = (slot + 1) & (table->slots - 1);
    return slot;
}

static int grow_maps(MapTable *table) {
    u64 *maps = realloc(table->maps, 8 * (2 * table->capacity * table->width + 1));
    if (!maps) return 0;
    table->maps = maps, table->capacity *= 2;
    return 1;
}

static int grow_index(MapTable *table) {
    int32_t *index = calloc(2 * table->slots, 4);
    if (!index) return 0;
    free(table->index), table->index = index, table->slots *= 2;
    for (isize i = 2; i < table->count; i++) table->index[find_slot(table, table->maps + i * table->width)] = (int32_t)i;
    return 1;
}

static int32_t find_or_add(MapTable *table, const u64 *map) {
    isize width = table->width;
    if (is_same_map(map, table->maps, width)) return EMPTY;
    if (is_same_map(map, table->maps + width, width)) return FULL;
    isize slot = find_slot(table, map);
    if (table->index[slot]) return table->index[slot];
    if (table->count == table->capacity && !grow_maps(table)) { table->failed = 1; return EMPTY; }
    int32_t number = (int32_t)table->count++;
    memcpy(table->maps + number * width, map, 8 * width);
    table->index[slot] = number;
    if (2 * table->count > table->slots && !grow_index(table)) table->failed = 1;
    return number;
}

/* numpy_loops.number, for one map. A map often equals the one before it. */
int32_t map_table_add(MapTable *table, const u64 *map) {
    if (is_same_map(map, table->maps + table->latest * table->width, table->width)) return table->latest;
    return table->latest = find_or_add(table, map);
}

/* What a tap reads of a map. */

/* Without maps there are the empty and the full one. */
int tap_reader_init(TapReader *reader, const Geometry *geometry, const u64 *maps, isize words, Arena *arena) {
    isize in_words = WORDS(geometry->inputs), count = maps && in_words ? words / in_words : 2;
    *reader = (TapReader){geometry, maps, count, in_words, WORDS(geometry->outputs), NULL, arena};
    reader->cache = arena_calloc(arena, sizeof(u64 *) * count * geometry->taps);
    return reader->cache != NULL;
}

/* 64 bits from any bit on, which may lie before or after the words: zeros. */
u64 word_at(const u64 *words, isize count, isize bit) {
    isize word = bit >> 6, shift = bit & 63;
    u64 low = word >= 0 && word < count ? words[word] : 0;
    if (!shift) return low;
    u64 high = word >= -1 && word + 1 < count ? words[word + 1] : 0;
    return low >> shift | high << (64 - shift);
}

void or_word_at(u64 *words, isize count, isize bit, u64 value) {
    isize word = bit >> 6, shift = bit & 63;
    words[word] |= value << shift;
    if (shift && word + 1 < count) words[word + 1] |= value >> (64 - shift);
}

static u64 compress_even_bits(u64 x) {
    x &= 0x5555555555555555u;
    x = (x | x >> 1) & 0x3333333333333333u;
    x = (x | x >> 2) & 0x0f0f0f0f0f0f0f0fu;
    x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
    x = (x | x >> 8) & 0x0000ffff0000ffffu;
    return (x | x >> 16) & 0xffffffffu;
}

static u64 spread_to_even_bits(u64 x) {
    x &= 0xffffffffu;
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
    x = (x | x << 2) & 0x3333333333333333u;
    return (x | x << 1) & 0x5555555555555555u;
}

/* Copy `count` positions of a line, starting at `from` and `to`. Steps of one and two go by whole words. */
static void copy_line(const TapReader *reader, const u64 *map, u64 *into, isize to, isize to_step, isize from,
                      isize from_step, isize count) {
    if (to_step > 2 || from_step > 2 || (to_step == 2 && from_step == 2)) {
        for (isize k = 0; k < count; k++, to += to_step, from += from_step)
            into[to >> 6] |= (map[from >> 6] >> (from & 63) & 1) << (to & 63);
        return;
    }
    isize bits = to_step == 1 && from_step == 1 ? 64 : 32;
    for (isize k = 0; k < count; k += bits, to += to_step * bits, from += from_step * bits) {
        u64 value = word_at(map, reader->in_words, from);
        if (from_step == 2) value = compress_even_bits(value);
        if (count - k < bits) value &= ((u64)1 << (count - k)) - 1;
        if (to_step == 2) value = spread_to_even_bits(value);
        or_word_at(into, reader->out_words, to, value);
    }
}

/* Line by line: `front` gives the input line, `steps` or else `last` the positions in it. */
static void read_lines(const TapReader *reader, const u64 *map, isize tap, u64 *into) {
    const Geometry *g = reader->geometry;
    isize length = g->line_length, lines = length ? g->outputs / length : 0, last_tap = tap % g->last_taps;
    const int32_t *front = g->front + tap / g->last_taps * lines, *step = g->steps + 5 * last_tap;
    for (isize line = 0; line < lines; line++) {
        isize to = line * length, from = front[line];
        if (from < 0) continue;
        if (step[4] >= 0) { copy_line(reader, map, into, to + step[0], step[1], from + step[2], step[3], step[4]); continue; }
        const int32_t *last = g->last + last_tap * length;
        for (isize k = 0; k < length; k++)
            if (last[k] >= 0) copy_line(reader, map, into, to + k, 3, from + last[k], 3, 1);
    }
}

/* numpy_loops._read_taps, for one map and tap, computed once. */
const u64 *read_tap(TapReader *reader, isize map, isize tap) {
    const Geometry *g = reader->geometry;
    const u64 *cover = g->covers + tap * reader->out_words;
    if (map == FULL) return cover;
    u64 **cached = &reader->cache[map * g->taps + tap];
    if (*cached) return *cached;
    u64 *into = arena_calloc(reader->arena, 8 * reader->out_words);
    if (!into) return cover;
    const u64 *from = reader->maps + map * reader->in_words;
    int64_t distance = g->distances[tap];
    if (distance == INT64_MAX) read_lines(reader, from, tap, into);
    else
        for (isize i = 0; i < reader->out_words; i++)
            into[i] = word_at(from, reader->in_words, 64 * i + (isize)distance) & cover[i];
    return *cached = into;
}
