"""Models that the transformers library builds from a config.json."""
