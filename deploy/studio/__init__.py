"""The steward's studio: local pages by which a specification is made, checked, run and looked at."""
