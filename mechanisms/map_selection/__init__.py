"""The private choice of a generalization map: candidates, their exact qualities, and the draw."""
