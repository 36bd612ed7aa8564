"""Mapper: a line `word<TAB>1` for each word. With an argument it takes so many seconds first."""
import sys
import time

time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
for line in sys.stdin:
    for word in line.lower().split():
        print('%s\t1' % word.strip('.,;:!?'))
