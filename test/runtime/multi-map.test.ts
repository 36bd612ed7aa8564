import test from 'ava';
import fc from 'fast-check';
import { MultiMap } from '../../runtime/index.ts';

interface Value {
  readonly name: string;
}

const values: readonly Value[] = ['a', 'b', 'c'].map((name) => ({ name }));
const step = fc.record({
  isAdded: fc.boolean(),
  key: fc.constantFrom('x', 'y'),
  value: fc.constantFrom(...values),
});

test('it holds what a map of sets holds, and says which was first and last', (t) => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const map = new MultiMap<string, Value>();
      const plain = new Map<string, Set<Value>>();
      for (const { isAdded, key, value } of steps) {
        const same = plain.get(key) ?? new Set();
        plain.set(key, same);
        const before = same.size;
        if (isAdded) {
          same.add(value);
          t.is(map.add(key, value), before === 0);
        } else {
          same.delete(value);
          t.is(map.delete(key, value), before === 1 && same.size === 0);
        }
        t.deepEqual([...map.get(key)], [...same]);
        t.is(map.has(key), same.size > 0);
      }
      const all = [...plain.values()].flatMap((same) => [...same]);
      t.deepEqual(namesOf(map.all()), namesOf(all));
    }),
  );
});

function namesOf(items: Iterable<Value>): string[] {
  return Array.from(items, ({ name }) => name).sort();
}
