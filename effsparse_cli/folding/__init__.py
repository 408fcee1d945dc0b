"""Remove dead connections and fold the constants that they carry into biases; the function stays the same."""
