/** Decisions are counted in memory and survive a restart, within bounds. */
import test from 'ava';
import { allow } from '../../../acl/index.ts';
import { policyOf } from '../../helpers/policies.ts';
import { openJournal, signal } from './helpers.ts';

const rule = { subject: { minion: '*' }, action: 'signal', resource: { tag: 'ok/*' } } as const;

test('the same decision is one record with its times and its number', async (t) => {
  const { gate, recorder, clock } = await openJournal(t, { policy: policyOf([allow('ok', rule)]) });
  for (let index = 0; index < 1000; index += 1) gate.decide(signal('web1', 'ok/a', { n: index }));
  clock.now += 5000;
  gate.decide(signal('web1', 'ok/a', { n: 'text' }));
  gate.decide(signal('web1', 'no/a', null));
  t.like(recorder.list()[0], {
    minion: 'web1',
    texts: ['ok/a'],
    samples: [{ n: 0 }, { n: 'text' }],
    isWhole: true,
    effect: 'allow',
    rule: 'ok',
    count: 1001,
    firstAt: clock.now - 5000,
    lastAt: clock.now,
  });
  t.is(recorder.list().length, 2);
  t.is(recorder.list(clock.now + 1).length, 0);
});

test('what a minion may without a rule is not recorded', async (t) => {
  const { gate, recorder } = await openJournal(t);
  gate.decide(signal('web1', 'salt/beacon/web1/load/', {}));
  gate.decide(signal('web1', 'salt/minion/web1/start', {}));
  t.deepEqual(recorder.list(), []);
});

test('records survive, and go on being counted; nothing in the store can be read', async (t) => {
  const first = await openJournal(t);
  first.gate.decide(signal('web1', 'my/tag', { password: 'hunter2' }));
  await first.recorder.close();
  const { store } = first;
  for await (const { value } of store.list(['decisions'])) {
    const bytes = Buffer.from(value).toString('latin1');
    t.false(bytes.includes('hunter2') || bytes.includes('my/tag'));
  }
  const second = await openJournal(t, { store });
  second.gate.decide(signal('web1', 'my/tag', { password: 'other' }));
  t.like(second.recorder.list()[0], { count: 2, samples: [{ password: 'hunter2' }] });
  await second.recorder.clear();
  t.deepEqual((await openJournal(t, { store })).recorder.list(), []);
});

test('without record_data the shapes are kept and the values are not', async (t) => {
  const { gate, recorder } = await openJournal(t, { keepsValues: false });
  gate.decide(signal('web1', 'my/tag', { a: 'secret', b: [1.5, true], c: null }));
  t.deepEqual(recorder.list()[0]?.samples, [{ a: '', b: [0.5, false], c: null }]);
});

test('a minion that invents tags drives out none of the others', async (t) => {
  const { gate, recorder, clock } = await openJournal(t);
  gate.decide(signal('web1', 'my/tag'));
  for (let index = 0; index < 20_000; index += 1) {
    clock.now += 100;
    gate.decide(signal('bad', `tag/${index}`));
  }
  const records = recorder.list();
  t.is(records.length, 201);
  t.is(records[0]?.minion, 'web1');
  t.is(recorder.missed, 19_800);
});

test('many minions that invent tags are bounded all together', async (t) => {
  const { gate, recorder, clock } = await openJournal(t);
  for (let index = 0; index < 6000; index += 1) {
    clock.now += 1;
    gate.decide(signal(`m${index}`, 'x'));
  }
  t.is(recorder.list().length, 5000);
  t.false(recorder.list().some(({ minion }) => minion === 'm0'));
  t.is(recorder.missed, 1000);
});

test('data that are too many, too large or no JSON are said to be missing', async (t) => {
  const { gate, recorder } = await openJournal(t);
  for (let index = 0; index < 9; index += 1) {
    gate.decide(signal('web1', 'many', { [`name${index}`]: 1 }));
  }
  gate.decide(signal('web1', 'large', { text: 'x'.repeat(3000) }));
  gate.decide(signal('web1', 'bytes', new Uint8Array(3)));
  gate.decide(signal('web1', 'nothing'));
  for (const { texts, isWhole } of recorder.list()) t.false(isWhole, texts[0]);
});
