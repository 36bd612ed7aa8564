/** Subscribers by topic, and the work of a look-up. */

import test from 'ava';
import fc from 'fast-check';
import { TopicIndex } from '#minion-protocol/transport/topic-index.ts';
import { minionTopic } from '#minion-protocol/transport/transport.ts';

const topic = fc.string({ unit: fc.constantFrom('a', 'b', 'é'), maxLength: 6 });
const step = fc.record({ isAdded: fc.boolean(), topic });

test('a look-up returns the subscribed topics that are proper prefixes', (t) => {
  const subscriber = {};
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), topic, (steps, text) => {
      const index = new TopicIndex<object>();
      const topics = new Set<string>();
      for (const { isAdded, topic } of steps) {
        if (isAdded) topics.add(topic);
        else topics.delete(topic);
        if (isAdded) index.add(topic, subscriber);
        else index.delete(topic, subscriber);
        const expected = [...topics].filter((it) => it !== text && text.startsWith(it));
        t.deepEqual(index.shorterPrefixes(text).sort(), expected.sort());
      }
    }),
  );
});

test('topics that strangers choose do not make the look-ups of other topics slower', (t) => {
  const stranger = {};
  const index = new TopicIndex<object>();
  for (let length = 1; length <= 256; length += 1) {
    index.add(String.fromCharCode(0x100 + length).repeat(length), stranger);
  }
  const topics = Array.from({ length: 1_000 }, (_, number) => minionTopic(`web${number}`));
  for (const own of topics) index.add(own, {});
  index.add('', {});
  t.deepEqual(index.shorterPrefixes(topics[0] ?? ''), ['']);
  const texts = comparedTexts(() => {
    for (const own of topics) index.shorterPrefixes(own);
  });
  t.true(texts < topics.length * 10, `${texts} texts`);
});

/** Returns the number of texts that `work` cuts or compares. */
function comparedTexts(work: () => void): number {
  const { slice, startsWith } = String.prototype;
  let count = 0;
  String.prototype.slice = function (...given) {
    count += 1;
    return slice.apply(this, given);
  };
  String.prototype.startsWith = function (...given) {
    count += 1;
    return startsWith.apply(this, given);
  };
  try {
    work();
  } finally {
    Object.assign(String.prototype, { slice, startsWith });
  }
  return count;
}
