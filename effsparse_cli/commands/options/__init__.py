"""Options that several commands share, and the parsing of their values."""
