/** Methods of `set`. */

import { isSubset } from './comparison.ts';
import { PythonException } from './exceptions.ts';
import { defineMethod, type Method, type Methods } from './functions.ts';
import type { UsageMeter } from './limits.ts';
import { toArray } from './sequences.ts';
import { keyError } from './subscripts.ts';
import { PySet, type Value } from './values.ts';

function asSet(value: Value | undefined, meter: UsageMeter): PySet {
  return value instanceof PySet ? value : new PySet(toArray(value ?? null, () => meter.step()));
}

function combine(run: (left: PySet, right: PySet) => Value[]): Method<PySet> {
  return defineMethod(['other'], [], (set, meter, other) => {
    meter.step(set.size);
    return new PySet(run(set, asSet(other, meter)));
  });
}

function change(run: (set: PySet, member: Value) => void): Method<PySet> {
  return defineMethod(['element'], [], (set, meter, member) => {
    meter.step();
    run(set, member ?? null);
    return null;
  });
}

function compare(run: (left: PySet, right: PySet) => boolean): Method<PySet> {
  return defineMethod(['other'], [], (set, meter, other) => run(set, asSet(other, meter)));
}

/** Methods of `set` for templates. */
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
    defineMethod([], [], (set) => {
      set.clear();
      return null;
    }),
  ],
  ['copy', defineMethod([], [], (set) => new PySet(set.values()))],
  [
    'pop',
    defineMethod([], [], (set) => {
      const [member] = set.values();
      if (member === undefined) throw new PythonException('KeyError', "'pop from an empty set'");
      set.delete(member);
      return member;
    }),
  ],
  [
    'update',
    defineMethod(['other'], [], (set, meter, other) => {
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
