"""The results of a study: as a table of states, JSON, CSV and Parquet, and as the figures of the paper."""
