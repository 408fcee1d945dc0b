"""One rule per file: its code, what it says, when it applies, and how it finds what breaks it."""
