"""Model files with edited structures: fields of messages, pickle opcodes, JSON, zip directories, TOML."""
