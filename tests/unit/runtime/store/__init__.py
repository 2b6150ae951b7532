"""Names, places and downloads of models; nothing here reaches for the network."""
