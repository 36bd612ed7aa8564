import test from 'ava';
import { StoreError } from '../../store/errors.ts';
import { GroupCommit } from '../../store/lmdb-tables.ts';

const failed = new StoreError('ERR_STORE_UNAVAILABLE', 'a write failed');

/** An engine that gives its transactions when it is told to, and counts them. */
function engine() {
  let given = 0;
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const commits = new GroupCommit(
    async (work) => {
      await gate;
      given += 1;
      work();
    },
    async () => failed,
  );
  return { commits, open, given: () => given };
}

test('what waits for a transaction shares it, and each gets its own result', async (t) => {
  const { commits, open, given } = engine();
  const results = [1, 2, 3].map((number) => commits.run(() => number));
  open();
  t.deepEqual(await Promise.all(results), [1, 2, 3]);
  t.is(given(), 1);
  t.is(await commits.run(() => 4), 4);
  t.is(given(), 2);
});

test('a condition that does not hold is one work alone', async (t) => {
  const { commits, open } = engine();
  const refused = new StoreError('ERR_REVISION', 'another revision');
  const works = [
    commits.run(() => 'before'),
    commits.run(() => {
      throw refused;
    }),
    commits.run(() => 'behind'),
  ];
  open();
  const [before, between, behind] = await Promise.allSettled(works);
  t.like(before, { value: 'before' });
  t.like(between, { reason: refused });
  t.like(behind, { value: 'behind' });
});

test('a transaction that fails fails for all of it, and the next one is another', async (t) => {
  const { commits, open } = engine();
  const works = [
    commits.run(() => 1),
    commits.run(() => {
      throw new Error('the disk');
    }),
  ];
  open();
  for (const outcome of await Promise.allSettled(works)) t.like(outcome, { reason: failed });
  t.is(await commits.run(() => 2), 2);
});

test('an engine that gives no transaction leaves nobody waiting', async (t) => {
  const commits = new GroupCommit(
    () => Promise.reject(new Error('closed')),
    async () => failed,
  );
  const works = [commits.run(() => 1), commits.run(() => 2)];
  for (const outcome of await Promise.allSettled(works)) t.like(outcome, { reason: failed });
  await t.throwsAsync(
    commits.run(() => 3),
    { is: failed },
  );
});
