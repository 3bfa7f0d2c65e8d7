"""Reports that people randomize on their own devices, and what is estimated from many of them."""
