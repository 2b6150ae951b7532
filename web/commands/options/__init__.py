"""The options of the command line, from their definitions to the configs that they set.  Torch is not imported.

For the commands; rests on the configs of the engine, the cache, the loader and the server, on whose fields options are
defined (`runtime.common.options`), and on click, which finds each value and says where.

    definitions  DEFINITIONS, Definition: all options with their names, types and defaults
    parameters   the kinds of values, and what is said of a wrong one
    config_file  the file of options, and the variables: names that no option has are refused
    flags        option_flags, option_flag, SectionedCommand: the options as click's, and help in sections
    chosen       Chosen: the values, where each was found, and the configs that come of them
    reference    the tables in docs/options.md
"""
