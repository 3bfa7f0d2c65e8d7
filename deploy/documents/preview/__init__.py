"""What a release would lose, foretold on public or synthetic records, a past release, or a charged noisy histogram."""
