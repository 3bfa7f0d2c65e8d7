"""The leak audit: what real releases leave behind, searched and compared."""
