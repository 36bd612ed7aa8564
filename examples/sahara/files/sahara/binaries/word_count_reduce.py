"""Reducer: adds the counts of equal words, which follow each other."""
import itertools
import sys

pairs = (line.rstrip('\n').split('\t') for line in sys.stdin)
for word, group in itertools.groupby(pairs, key=lambda it: it[0]):
    print('%s\t%d' % (word, sum(int(count) for _, count in group)))
