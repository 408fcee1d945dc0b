"""Titles of the groups of options in the help."""

from __future__ import annotations

ARGUMENTS, OPTIONS = "Arguments", "Options"
LOAD, ANALYSIS, OUTPUT, WRITE = "Loading", "Analysis", "Output", "Writing"
LOAD_MORE = "Loading, less common"

MORE = {LOAD_MORE: LOAD}
"""Groups that only `--help-all` shows, and the group that each belongs to."""
