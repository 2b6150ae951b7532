"""The command line.  Importing it does not import torch, which takes seconds; a test checks that.

Nothing imports from here but `web.__main__`, the entry point `cede` and tests; it may import all of `web`.

    main        the program
    serve       `cede serve`: runs a server as its options say
    assembly    server_options: from options to what the server is told; all is looked at that needs no torch
    models      `cede pull`, `cede models`, `cede rm`
    client      `cede run`, and what the commands for people share
    chat        `cede chat`
    top         `cede top`
    cluster     `cede cluster`: a front door and its workers
    front_door  `cede front-door`
    worker      `cede worker`
    progress    how a download is shown
    completion  `cede completion`, and the names of models that it offers
    config      `cede config`: which options are in force, and where each was found
    doctor      `cede doctor`
    keys        `cede keys`: who has an API key
    kv          `cede kv`
    options     definitions of options, flags, files, reference
    foreign     flags of other servers that cede does not have
    added       commands that other packages add
"""
