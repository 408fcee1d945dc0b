"""The boolean semiring (or, and) on packed bits: which connections are active."""
