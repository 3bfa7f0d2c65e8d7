"""How long the adding-up of local reports takes, beside plain loops and pure-ldp."""
