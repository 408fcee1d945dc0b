"""Rules for released models: a measured model enters, a verdict with findings leaves. `rules/` has one file per rule."""
