"""The page at `/`: where one watches the server work, and a cancel land.

    files       SiteFiles: the page's files, with their types and tags
    vendored    the libraries that it uses, as npm has them
    routes      GET / and GET /page/...

The page itself is in `site`: ES modules that a browser takes as they are; what is below `site/chat/state` needs no DOM,
and is tested under Node.  It asks no other server for anything, and this one only what any client could.  It comes
without a key, as a browser sends none with a page; what it shows wants one where the server has keys.
"""
