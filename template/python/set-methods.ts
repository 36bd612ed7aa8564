/** The methods of `set`. */
import type { Meter } from '../limits.ts';
import { isSubset } from './compare.ts';
import { type Method, type Methods, method } from './functions.ts';
import { toArray } from './iterate.ts';
import { Raised } from './raise.ts';
import { keyError } from './slice.ts';
import { PySet, type Value } from './values.ts';

function asSet(value: Value | undefined, meter: Meter): PySet {
  return value instanceof PySet ? value : new PySet(toArray(value ?? null, () => meter.step()));
}

function combine(run: (left: PySet, right: PySet) => Value[]): Method<PySet> {
  return method(['other'], [], (set, meter, other) => {
    meter.step(set.size);
    return new PySet(run(set, asSet(other, meter)));
  });
}

function change(run: (set: PySet, member: Value) => void): Method<PySet> {
  return method(['element'], [], (set, meter, member) => {
    meter.step();
    run(set, member ?? null);
    return null;
  });
}

function compare(run: (left: PySet, right: PySet) => boolean): Method<PySet> {
  return method(['other'], [], (set, meter, other) => run(set, asSet(other, meter)));
}

/** Those that templates can reach. */
export const setMethods: Methods<PySet> = new Map<string, Method<PySet>>([
  ['add', change((set, member) => set.add(member))],
  ['discard', change((set, member) => void set.delete(member))],
  [
    'remove',
    change((set, member) => {
      if (!set.delete(member)) throw keyError(member);
    }),
  ],
  [
    'clear',
    method([], [], (set) => {
      set.clear();
      return null;
    }),
  ],
  ['copy', method([], [], (set) => new PySet(set.values()))],
  [
    'pop',
    method([], [], (set) => {
      const [member] = set.values();
      if (member === undefined) throw new Raised('KeyError', "'pop from an empty set'");
      set.delete(member);
      return member;
    }),
  ],
  [
    'update',
    method(['other'], [], (set, meter, other) => {
      for (const member of asSet(other, meter).values()) set.add(member);
      return null;
    }),
  ],
  ['union', combine((left, right) => [...left.values(), ...right.values()])],
  ['intersection', combine((left, right) => left.values().filter((m) => right.has(m)))],
  ['difference', combine((left, right) => left.values().filter((m) => !right.has(m)))],
  [
    'symmetric_difference',
    combine((left, right) => [
      ...left.values().filter((m) => !right.has(m)),
      ...right.values().filter((m) => !left.has(m)),
    ]),
  ],
  ['issubset', compare(isSubset)],
  ['issuperset', compare((left, right) => isSubset(right, left))],
  ['isdisjoint', compare((left, right) => !left.values().some((m) => right.has(m)))],
]);
