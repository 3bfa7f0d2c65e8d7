"""JSON Schemas of what is read and written: specification, certificate, ledger's export, answers of commands."""
