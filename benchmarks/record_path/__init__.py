"""The path of a record: how fast records are read, chosen and counted, beside what people would write by hand."""
