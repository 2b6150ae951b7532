"""The process of a real server: its command line, its signals, the doctor."""
