"""What the guarantee rests on in accounting: prices, the ledger, keys. Nothing outside can break it."""
