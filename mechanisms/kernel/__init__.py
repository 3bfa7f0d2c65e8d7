"""What a sampled release's guarantee rests on in mechanisms: numbers, refusals, coins and noise."""
