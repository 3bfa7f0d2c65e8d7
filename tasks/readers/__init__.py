"""From stored records, or a sample of them, to group keys."""
