"""Check measured models against bounds, claims and baselines. `rules/` has one module per rule."""
