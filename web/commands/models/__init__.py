"""Commands about models: getting one, listing those that are here, removing one.  Torch is not imported.

pull         `cede pull`
listing      `cede models`, and what is said of each
remove       `cede rm`
progress     how a download is shown, by `serve` and `doctor`, too
"""
