/* How many connections have a source, a target, or both. A count is a name here and in numpy_loops.Tally. */

#include "kernel.h"

#define COUNTS(X) X(kept) X(with_source) X(with_target) X(with_both) X(active) X(dead_rows)
#define FIELD(name) isize name;
#define FORMAT(name) "sn"
#define ITEM(name) , #name, tally.name
typedef struct { COUNTS(FIELD) } Tally;

/* numpy_loops.tally */
WITH_POPCOUNT static void run_tally(const Rows *w, const Ends *ends, Tally *tally) {
    for (isize k = 0; k < w->groups * w->rows; k++) {
        const u64 *row = w->words + k * w->width, *missed = ends->missed ? ends->missed + k * w->width : NULL;
        const u64 *source = ends->source ? ends->source + (ends->source_by_group ? k / w->rows : k) * w->width : NULL;
        const u64 *target = ends->target ? ends->target + (ends->target_by_row ? k : k * w->width) : NULL;
        isize active = 0;
        for (isize i = 0; i < w->width; i++) {
            if (!row[i]) continue;
            u64 with_source = source ? row[i] & source[i] : row[i];
            u64 with_target = target ? row[i] & target[ends->target_by_row ? 0 : i] : row[i];
            u64 both = with_source & with_target;
            tally->kept += __builtin_popcountll(row[i]);
            tally->with_source += __builtin_popcountll(with_source);
            tally->with_target += __builtin_popcountll(with_target);
            tally->with_both += __builtin_popcountll(both);
            active += __builtin_popcountll(missed ? both & ~missed[i] : both);
        }
        tally->active += active, tally->dead_rows += !active;
    }
}

/* Returns a dict: keyword arguments of numpy_loops.Tally. */
PyObject *count_connections(const Rows *w, const Ends *ends) {
    Tally tally = {0};
    run_tally(w, ends, &tally);
    return Py_BuildValue("{" COUNTS(FORMAT) "}" COUNTS(ITEM));
}
