/* The verbs of path rules (paths/algebra.py) that sum or multiply. `args` are what Python's recorder has written down for
   each; ASK says that Python has to do it, NULL that there is no memory. */

/* Of numbers that are EMPTY or FULL. */
CLONED static void combine_line(int32_t *into, const int32_t *x, isize by_x, const int32_t *y, isize by_y, isize n, int both) {
    if (both && by_x == 1 && by_y == 1) for (isize i = 0; i < n; i++) into[i] = x[i] & y[i];
    else if (both) for (isize i = 0; i < n; i++) into[i] = x[i * by_x] & y[i * by_y];
    else if (by_x == 1 && by_y == 1) for (isize i = 0; i < n; i++) into[i] = x[i] | y[i];
    else for (isize i = 0; i < n; i++) into[i] = x[i * by_x] | y[i * by_y];
}

CLONED static void or_line(int32_t *into, const int32_t *from, isize n, int32_t other) {
    for (isize i = 0; other && i < n; i++) into[i] |= from[i];
}

/* The union or the intersection of two values. */
static const Value *combine(Arena *arena, const Value *a, const Value *b, int both) {
    u64 mapped = mapped_axes(a) | mapped_axes(b);
    if (!(a = regroup(arena, a, ~mapped)) || !(b = regroup(arena, b, ~mapped))) return NULL;
    if (a->maps && b->maps && mapped_axes(a) != mapped_axes(b)) return &ASK;
    const Value *form = a->maps ? a : b;
    Value found = *form;
    isize *sizes = new_sizes(arena, form->rank), a_steps[RANKS], b_steps[RANKS];
    Walk walk = {0};
    if (!sizes) return NULL;
    find_steps(a, a_steps), find_steps(b, b_steps);
    found.axes = a->axes | b->axes, found.n = 1, found.sizes = sizes;
    for (int i = 0; i < form->rank; i++) {
        sizes[i] = a->sizes[i] > b->sizes[i] ? a->sizes[i] : b->sizes[i];
        if (is_channel(&found, i)) add_axis(&walk, sizes[i], a_steps[i], b_steps[i], 0), found.n *= sizes[i];
    }
    int32_t *numbers = claim(arena, 4 * found.n + 4);
    if (!numbers) return NULL;
    found.numbers = numbers;
    isize c = 0;
    if (!form->maps) {
        Line line = last_line(&walk);
        do {
            const int32_t *x = a->numbers + walk.offset[0], *y = b->numbers + walk.offset[1];
            combine_line(numbers + c, x, line.a, y, line.b, line.size, both), c += line.size;
        } while (advance(&walk));
        return settled(arena, found);
    }
    Numbering n;
    Arena own = {0};
    start_numbering(&n, form->positions);
    isize many = a->maps ? a->count : 2, others = b->maps ? b->count : 2;
    int32_t *known = many * others <= 1 << 16 ? take(&own, 4 * many * others) : NULL; /* one more than the number */
    u64 *joined = take(&own, 8 * n.width + 8);
    do {
        int32_t i = a->numbers[walk.offset[0]], j = b->numbers[walk.offset[1]];
        int32_t *was = known ? &known[i * others + j] : NULL;
        if (!joined || n.failed) break;
        if (was && *was) { numbers[c++] = *was - 1; continue; }
        const u64 *x = (a->maps ? a->maps : n.maps) + i * n.width, *y = (b->maps ? b->maps : n.maps) + j * n.width;
        for (isize k = 0; k < n.width; k++) joined[k] = both ? x[k] & y[k] : x[k] | y[k];
        numbers[c] = number_of(&n, joined);
        if (was) *was = numbers[c] + 1;
        c++;
    } while (advance(&walk));
    arena->failed |= own.failed;
    release(&own);
    return numbered_value(arena, found, &n);
}

/* plus and the elementwise product. */
static const Value *fold(Arena *arena, const Value **xs, isize count, int both) {
    const Value *found = NULL;
    for (isize i = 0; i < count; i++)
        if (xs[i]->kind == (both ? EMPTY : FULL)) return xs[i];
    for (isize i = 0; i < count; i++) {
        if (is_uniform(xs[i]) || found == xs[i]) continue;
        found = found ? combine(arena, found, xs[i], both) : xs[i];
        if (!found || found == &ASK || is_uniform(found)) return found;
    }
    return found ? found : xs[0];
}

/* args: how many letters there are, and for each its axis in a, in b and in the result, or -1. */
static const Value *product(Arena *arena, const Value *a, const Value *b, int rank, const int64_t *args) {
    if (a->kind == EMPTY || b->kind == EMPTY) return &EVERYWHERE[EMPTY];
    if (is_uniform(a) && is_uniform(b)) return a;
    if (a->maps || b->maps) return &ASK;
    isize *sizes = new_sizes(arena, rank), a_steps[RANKS], b_steps[RANKS], to[RANKS], all = 1;
    Value found = {.rank = rank, .n = 1, .positions = 1, .sizes = sizes};
    Walk walk = {0};
    if (!sizes) return NULL;
    find_steps(a, a_steps), find_steps(b, b_steps);
    for (isize k = 0; k < args[0]; k++) {
        const int64_t *axis = args + 1 + 3 * k;
        isize of_a = axis[0] < 0 ? 1 : size_on(a, (int)axis[0]), of_b = axis[1] < 0 ? 1 : size_on(b, (int)axis[1]);
        if (axis[2] >= 0) sizes[axis[2]] = of_a > of_b ? of_a : of_b, found.axes |= (u64)(sizes[axis[2]] > 1) << axis[2];
    }
    for (int i = rank; i-- > 0; found.n *= sizes[i]) to[i] = found.n;
    for (isize k = 0; k < args[0]; k++) {
        const int64_t *axis = args + 1 + 3 * k;
        isize of_a = axis[0] < 0 ? 1 : size_on(a, (int)axis[0]), of_b = axis[1] < 0 ? 1 : size_on(b, (int)axis[1]);
        isize size = of_a > of_b ? of_a : of_b;
        isize by_a = of_a > 1 ? a_steps[axis[0]] : 0, by_b = of_b > 1 ? b_steps[axis[1]] : 0;
        add_axis(&walk, size, by_a, by_b, axis[2] < 0 ? 0 : to[axis[2]]), all *= size;
    }
    if (all > 1 << 20) return &ASK;
    int32_t *numbers = take(arena, 4 * found.n + 4);
    if (!numbers) return NULL;
    /* Mostly the last axis is the one that is summed, and what is full already stays so; but one along which results
       lie side by side goes many at a time. */
    for (int i = 0; i < walk.count; i++)
        if (walk.size[i] > 8 && walk.by[2][i] == 1 && walk.by[0][i] + walk.by[1][i] <= 1) put_last(&walk, i);
    Line line = last_line(&walk);
    do {
        const int32_t *x = a->numbers + walk.offset[0], *y = b->numbers + walk.offset[1];
        int32_t *into = numbers + walk.offset[2];
        if (line.c == 1 && !line.a && line.b == 1) or_line(into, y, line.size, *x);
        else if (line.c == 1 && line.a == 1 && !line.b) or_line(into, x, line.size, *y);
        else if (line.c) for (isize c = 0; c < line.size; c++) into[c * line.c] |= x[c * line.a] & y[c * line.b];
        else for (isize c = 0; c < line.size && !*into; c++) *into |= x[c * line.a] & y[c * line.b];
    } while (advance(&walk));
    found.numbers = numbers;
    return settled(arena, found);
}

/* args: one bit for each axis that is summed. */
static const Value *total(Arena *arena, const Value *a, const int64_t *args) {
    u64 summed = (u64)args[0], mapped = mapped_axes(a);
    if (is_uniform(a) || !(summed & (a->axes | mapped))) return a;
    if ((mapped & summed) && (mapped & ~summed)) return &ASK;
    int flat = !a->maps || (mapped & summed);
    isize *sizes = new_sizes(arena, a->rank), width = WORDS(a->positions), c = 0;
    Value found = *a;
    Walk walk = {0};
    if (!sizes) return NULL;
    found.axes = a->axes & ~summed, found.sizes = sizes, found.n = 1;
    for (int i = 0; i < a->rank; i++) {
        if (!(summed >> i & 1) && !(flat && !is_channel(a, i))) sizes[i] = a->sizes[i];
        if (is_channel(&found, i)) found.n *= sizes[i];
    }
    isize to[RANKS];
    find_steps(&found, to);
    for (int i = 0; i < a->rank; i++)
        if (is_channel(a, i)) add_axis(&walk, a->sizes[i], to[i], 0, 0);
    int32_t *numbers = take(arena, 4 * found.n + 4);
    if (!numbers) return NULL;
    found.numbers = numbers;
    if (flat) {
        Line line = last_line(&walk);
        do {
            int32_t *into = numbers + walk.offset[0];
            for (isize i = 0; i < line.size; i++) into[i * line.a] |= a->numbers[c + i] != EMPTY;
            c += line.size;
        } while (advance(&walk));
        found.maps = NULL, found.count = 0, found.positions = 1;
        return settled(arena, found);
    }
    Arena own = {0};
    Numbering n;
    u64 *sums = take(&own, 8 * found.n * width + 8);
    start_numbering(&n, a->positions);
    if (sums) {
        do or_into(sums + walk.offset[0] * width, a->maps + a->numbers[c++] * width, width); while (advance(&walk));
        for (c = 0; c < found.n; c++) numbers[c] = number_of(&n, sums + c * width);
    }
    arena->failed |= own.failed;
    release(&own);
    return numbered_value(arena, found, &n);
}

/* What a tap brings from one map to another: positions `from` along an axis to positions `to`, -1 for none, n of them,
   each of which stands for `inner` positions that lie together. */
static void bring(const Reader *r, const u64 *map, u64 *into, const int64_t *from, const int64_t *to, isize n,
                  isize inner) {
    isize first = 0, by = 0, over = 0, k;
    while (first < n && (from[first] < 0 || to[first] < 0)) first++;
    if (first == n) return;
    if (first + 1 < n) by = from[first + 1] - from[first], over = to[first + 1] - to[first];
    for (k = first + 1; k < n && from[k] >= 0 && to[k] >= 0; k++)
        if (from[k] - from[k - 1] != by || to[k] - to[k - 1] != over) break;
    if (inner == 1 && (k == first + 1 || (by > 0 && over > 0)))
        read_line(r, map, into, to[first], k > first + 1 ? over : 1, from[first], k > first + 1 ? by : 1, k - first);
    else
        for (isize i = first; i < k; i++) read_line(r, map, into, to[i] * inner, 1, from[i] * inner, 1, inner);
    bring(r, map, into, from + k, to + k, n - k, inner);
}

/* args: the axis, whether every position of the result reads anything, whether it is the adjoint, how many positions the
   result has, taps, outputs, and the table of what each tap reads for each output. */
static const Value *window(Arena *arena, const Value *a, const int64_t *args) {
    int axis = (int)args[0], back = args[2] != 0;
    isize stored = size_on(a, axis), taps = args[4], n = args[5], inner = 1, outer = 1;
    if (a->kind == EMPTY || (args[1] && stored == 1)) return a;
    if (is_uniform(a) || !a->maps || stored == 1 || is_channel(a, axis)) return &ASK;
    isize *sizes = new_sizes(arena, a->rank);
    int32_t *numbers = take(arena, 4 * a->n + 4);
    Arena own = {0};
    int64_t *places = take(&own, 8 * n + 8);
    int32_t *known = take(&own, 4 * a->count + 4); /* one more than the number */
    if (!sizes || !numbers || !places || !known) { release(&own); return NULL; }
    for (int i = 0; i < a->rank; i++) {
        sizes[i] = i == axis ? args[3] : a->sizes[i];
        if (i != axis && !is_channel(a, i)) *(i < axis ? &outer : &inner) *= sizes[i];
    }
    Value found = *a;
    found.sizes = sizes, found.numbers = numbers, found.positions = outer * args[3] * inner;
    Numbering numbering;
    start_numbering(&numbering, found.positions);
    Reader reader = {.in = WORDS(a->positions), .out = numbering.width};
    /* One line of positions after another, so that the places along the axis are places in the map. */
    u64 *map = take(&own, 8 * numbering.width + 8), *line = take(&own, 8 * WORDS(stored * inner) + 8);
    u64 *result = take(&own, 8 * WORDS(args[3] * inner) + 8);
    for (isize k = 0; k < n; k++) places[k] = k;
    for (isize c = 0; c < a->n && result && line && map; c++) {
        int32_t number = a->numbers[c];
        if (number == EMPTY) { numbers[c] = EMPTY; continue; }
        if (!known[number]) {
            memset(map, 0, 8 * numbering.width);
            for (isize o = 0; o < outer; o++) {
                memset(line, 0, 8 * WORDS(stored * inner)), memset(result, 0, 8 * WORDS(args[3] * inner));
                reader.in = WORDS(a->positions), reader.out = WORDS(stored * inner);
                read_line(&reader, a->maps + number * reader.in, line, 0, 1, o * stored * inner, 1, stored * inner);
                reader.in = reader.out, reader.out = WORDS(args[3] * inner);
                for (isize t = 0; t < taps; t++) {
                    const int64_t *reads = args + 6 + t * n;
                    bring(&reader, line, result, back ? places : reads, back ? reads : places, n, inner);
                }
                reader.in = reader.out, reader.out = numbering.width;
                read_line(&reader, result, map, o * args[3] * inner, 1, 0, 1, args[3] * inner);
            }
            known[number] = number_of(&numbering, map) + 1;
        }
        numbers[c] = known[number] - 1;
    }
    arena->failed |= own.failed;
    release(&own);
    return numbered_value(arena, found, &numbering);
}
