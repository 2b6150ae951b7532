"""Memory that servers keep: `lengths` by the variety of prompts, `held` of each small thing beside what is counted."""
