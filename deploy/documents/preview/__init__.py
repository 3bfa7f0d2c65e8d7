"""What a release would lose, predicted on public or synthetic records, a past release, or a charged noisy histogram."""
