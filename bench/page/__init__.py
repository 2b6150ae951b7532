"""The page in a real browser, beside a server that has much to tell.

recording   Recording: what the feed tells of a busy engine, made in virtual time
stand_in    StandIn: serves the page, and recordings in place of a feed
frame_rate  frames a second, memory and elements while events come: `python -m bench.page.frame_rate`
"""
