"""A model of what a release has published: margins, counted pairs, and the estimate of every other pair by them."""
