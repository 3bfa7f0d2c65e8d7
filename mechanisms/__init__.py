"""Pure algorithms on arrays and exact numbers: no files, clocks, clusters, or randomness of their own."""
