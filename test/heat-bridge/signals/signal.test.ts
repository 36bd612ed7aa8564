import test from 'ava';
import fc from 'fast-check';
import { parseSignalTag } from '../../../heat-bridge/signals/handles.ts';
import { packRecord, unpackRecord } from '../../../heat-bridge/signals/outbox.ts';
import { parseSignal, signalId } from '../../../heat-bridge/signals/signal.ts';

test('a guest that says nothing signals success', (t) => {
  for (const said of [undefined, null, {}]) {
    t.deepEqual(parseSignal(said, 1024), { ok: true, signal: { status: 'SUCCESS' } });
  }
});

test('status, reason and data are taken as they are said', (t) => {
  const said = {
    status: 'FAILURE',
    reason: 'disk full',
    data: { free: [0, 1.5, 'ß', null, true] },
  };
  t.deepEqual(parseSignal(said, 1024), { ok: true, signal: said as never });
});

const refused = [
  ['text', 'SUCCESS', 'not-a-map'],
  ['a status that Heat does not know', { status: 'success' }, 'status-unknown'],
  ['an id of the guest', { id: 'another' }, 'field-unknown'],
  ['any other field', { status: 'SUCCESS', Data: 1 }, 'field-unknown'],
  ['a reason that is no text', { reason: ['x'] }, 'reason-no-text'],
  ['bytes', { data: new Uint8Array([255]) }, 'data-no-json'],
  ['bytes within lists', { data: [[new Uint8Array([255])]] }, 'data-no-json'],
  ['a number that JSON has not', { data: Number.NaN }, 'data-no-json'],
  ['more than may be', { data: 'x'.repeat(2000) }, 'bytes'],
] as const;

for (const [what, said, complaint] of refused) {
  test(`${what} is refused, because Heat would drop it or count it wrongly`, (t) => {
    t.deepEqual(parseSignal(said as never, 1024), { ok: false, complaint });
  });
}

test('bytes are counted as they travel, not characters', (t) => {
  const data = 'ß'.repeat(600);
  t.false(parseSignal({ data }, 1024).ok);
  t.true(parseSignal({ data: 'x'.repeat(600) }, 1024).ok);
});

test('a long reason is cut, and the failure told nonetheless', (t) => {
  const read = parseSignal({ status: 'FAILURE', reason: '😀'.repeat(5000) }, 100_000);
  t.true(read.ok);
  if (!read.ok) return;
  t.is([...(read.signal.reason ?? '')].length, 2048);
  t.true(read.signal.reason?.endsWith('😀…'));
});

test('what is taken reads the same behind JSON', (t) => {
  fc.assert(
    fc.property(fc.jsonValue(), (data) => {
      const read = parseSignal({ data } as never, 1_000_000);
      if (!read.ok) return t.fail();
      return t.deepEqual(
        JSON.parse(JSON.stringify(read.signal)).data ?? null,
        JSON.parse(JSON.stringify(data)),
      );
    }),
  );
});

test('no two of minion and member have one id', (t) => {
  const id = fc.string({ minLength: 1 }).filter((it) => !it.includes('/'));
  const member = fc.option(fc.stringMatching(/^[A-Za-z0-9._-]+$/), { nil: undefined });
  fc.assert(
    fc.property(id, member, id, member, (a, m, b, n) => {
      t.is(signalId(a, m) === signalId(b, n), a === b && m === n);
    }),
  );
});

test('a tag names an alias, or an alias and a member', (t) => {
  t.deepEqual(parseSignalTag('heat/db-ready'), { alias: 'db-ready', member: undefined });
  t.deepEqual(parseSignalTag('heat/db-ready/m1'), { alias: 'db-ready', member: 'm1' });
  for (const tag of ['heat', 'heat/', 'heat/a/', 'heat//b', 'heat/a/b/c', 'x/heat/a', 'heats/a']) {
    t.is(parseSignalTag(tag), undefined, tag);
  }
});

test('integers of 64 bits are kept, also in the outbox', (t) => {
  const data = { most: 2n ** 64n - 1n, least: -(2n ** 63n), small: 5 };
  const read = parseSignal({ data }, 1000);
  t.deepEqual(read, { ok: true, signal: { status: 'SUCCESS', data } });
  if (!read.ok) return;
  const { signal } = read;
  const record = { id: 'a', alias: 'b', sequence: 1, minion: 'm1', signal, acceptedAt: 1 };
  t.deepEqual(unpackRecord(packRecord(record)), record);
});
