"""Rules, settings, claims and baselines."""
