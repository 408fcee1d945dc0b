"""Rules for released models: a measured model enters, a verdict leaves. `rules/` has one file per rule."""
