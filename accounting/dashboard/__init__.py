"""The auditors' pages: what was promised, spent and released, and whether it holds; nothing here can write."""
