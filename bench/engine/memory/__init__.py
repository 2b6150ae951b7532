"""What servers keep: `lengths` by the variety of their prompts, `held` of each small thing beside what is counted."""
