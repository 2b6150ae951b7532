"""KV of real servers, in slots, in memory and on disk, through restarts and `kill -9`; `servers` asks and looks in."""
