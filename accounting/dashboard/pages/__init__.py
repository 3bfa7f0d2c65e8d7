"""One module for each page: its context, and the function that builds it."""
