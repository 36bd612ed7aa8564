import type { ExecutionContext } from 'ava';
import fc from 'fast-check';
import { type Entry, type Operation, type Store, StoreError } from '#store';
import { tries } from '../helpers/effort.ts';
import { Model } from './model.ts';

type Move =
  | { readonly type: 'write'; readonly operations: readonly Operation[] }
  | { readonly type: 'wait'; readonly ms: number };

const start = 1_000_000;
const segment = fc.constantFrom('a', 'b', 'a\u0000', '\u0001', 'aa', 'ü', '\u{1f600}', '\uffee');
const key = fc.array(segment, { minLength: 1, maxLength: 3 });
const value = fc.uint8Array({ maxLength: 8 });
const ifRevision = fc.option(fc.nat(12), { nil: undefined, freq: 3 });
const expiresAt = fc.option(fc.integer({ min: start, max: start + 60 }), { nil: undefined });

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ key, value, ifRevision, expiresAt }).map(toPut) },
  { weight: 2, arbitrary: fc.record({ key, ifRevision }).map(toDelete) },
  fc.record({ op: fc.constant('require' as const), key, ifRevision: fc.nat(12) }),
  key.map((prefix) => ({ op: 'delete-prefix' as const, prefix: prefix.slice(1) })),
  fc.record({
    op: fc.constant('append' as const),
    stream: fc.constantFrom('s', 's\u0000'),
    value,
  }),
);

const move: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      type: fc.constant('write' as const),
      operations: fc.array(operation, { maxLength: 4 }),
    }),
  },
  fc.record({ type: fc.constant('wait' as const), ms: fc.nat(20) }),
);

/** Executes the same operations with an engine and {@link Model}, and compares their content. */
export async function agreesWithModel(t: ExecutionContext, openStore: OpenStore): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(move, { maxLength: 12 }), key, async (moves, prefix) => {
      const clock = { now: start };
      const store = await openStore(t, () => clock.now);
      try {
        const model = new Model();
        for (const step of moves) await make(t, step, { store, model, clock });
        for (const under of [[], prefix.slice(1), prefix]) {
          t.deepEqual(await entriesOf(store.list(under)), model.list(under).map(plain));
        }
        const found = await store.get(prefix);
        t.deepEqual(
          found && plain(found),
          [model.get(prefix)].flatMap((e) => e ?? []).map(plain)[0],
        );
        for (const stream of ['s', 's\u0000']) {
          const records = await store.stream(stream).read();
          const wanted = model.streams.get(stream) ?? [];
          t.deepEqual(
            records.map((r) => Buffer.from(r.value)),
            wanted.map((v) => Buffer.from(v)),
          );
        }
      } finally {
        await store.close();
      }
    }),
    tries(60),
  );
}

async function make(
  t: ExecutionContext,
  step: Move,
  given: { readonly store: Store; readonly model: Model; readonly clock: { now: number } },
): Promise<void> {
  if (step.type === 'wait') {
    given.clock.now += step.ms;
    given.model.expire(given.clock.now);
    return;
  }
  const revision = await given.store.write(step.operations).catch((error: unknown) => {
    t.true(error instanceof StoreError && error.code === 'ERR_REVISION');
    return undefined;
  });
  t.is(revision, given.model.write(step.operations));
  given.model.expire(given.clock.now);
}

function toPut(fields: {
  readonly key: string[];
  readonly value: Uint8Array;
  readonly ifRevision: number | undefined;
  readonly expiresAt: number | undefined;
}): Operation {
  const { key, value, ifRevision, expiresAt } = fields;
  return {
    op: 'put',
    key,
    value,
    ...(ifRevision === undefined ? {} : { ifRevision }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
}

function toDelete(fields: {
  readonly key: string[];
  readonly ifRevision: number | undefined;
}): Operation {
  const { key, ifRevision } = fields;
  return ifRevision === undefined ? { op: 'delete', key } : { op: 'delete', key, ifRevision };
}

async function entriesOf(entries: AsyncIterable<Entry>): Promise<Entry[]> {
  const list: Entry[] = [];
  for await (const entry of entries) list.push(plain(entry));
  return list;
}

function plain(entry: Entry): Entry {
  return { ...entry, value: Buffer.from(entry.value) };
}

/** Function that opens an empty store with the given clock. The suite closes the store. */
export type OpenStore = (t: ExecutionContext, now: () => number) => Promise<Store>;
