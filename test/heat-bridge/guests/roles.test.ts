/** Roles of a stack: mistakes in their definitions, and the work of finding them. */
import test from 'ava';
import { findRoleProblems, type Roles } from '#guests/data-spaces/roles.ts';

function named(prefix: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, at) => `${prefix}${at}`);
}

test('values of a role wait for all values that it reads', (t) => {
  let steps = 0;
  const values = named('r', 1_000);
  const reads = Object.fromEntries(values.map((name) => [name, `db/${name}`]));
  const writes = Object.fromEntries(named('w', 1_000).map((name) => [name, {}]));
  const roles: Roles = {
    db: { writes: Object.fromEntries(values.map((name) => [name, {}])) },
    app: {
      reads: new Proxy(reads, {
        get: (target, key) => {
          steps += 1;
          return Reflect.get(target, key);
        },
      }),
      writes,
    },
  };
  t.deepEqual([...findRoleProblems(roles)], []);
  t.true(steps <= 4 * values.length, `${steps} looks at what is read`);
});

test('a cycle through all reads of roles is reported with its values', (t) => {
  const roles: Roles = {
    a: { reads: { b: 'b/one' }, writes: { one: {}, two: {} } },
    b: { reads: { a: 'a/two' }, writes: { one: {} } },
  };
  const [problem] = findRoleProblems(roles);
  t.is(problem?.kind, 'cycle');
  const [first, ...others] = problem?.chain ?? [];
  t.deepEqual([first, others.at(-1)], [others.at(-1), first]);
  t.deepEqual(new Set(others), new Set(['a/two', 'b/one']));
});

test('one problem is found without searching for the others', (t) => {
  const reads = Object.fromEntries(named('r', 1_000).map((name) => [name, `none/${name}`]));
  const roles = Object.fromEntries(named('role', 100).map((name) => [name, { reads }]));
  const [problem] = findRoleProblems(roles);
  t.regex(problem?.text ?? '', /there is no role "none"; roles are role0, .*role19, …$/);
});
