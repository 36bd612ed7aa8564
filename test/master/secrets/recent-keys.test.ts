import test from 'ava';
import { RecentKeys } from '../../../master/auth/session-keys.ts';
import { generateKeyString } from '../../../minion-protocol/index.ts';

test('a key that was used lately is ready, one with another text is made ready', (t) => {
  const keys = new RecentKeys();
  const [first, second] = [generateKeyString(), generateKeyString()];
  const ready = keys.ready('web1', first);
  t.is(keys.ready('web1', first), ready);
  t.is(keys.ready('web1', second).text, second);
  t.not(keys.ready('web1', first), ready, 'the one before is gone');
});

test('one that is forgotten is not kept', (t) => {
  const keys = new RecentKeys();
  const text = generateKeyString();
  const ready = keys.ready('web1', text);
  keys.forget('web1');
  t.not(keys.ready('web1', text), ready);
});

test('however many speak, so many are kept, and who has been silent for a minute makes room', (t) => {
  let now = 0;
  const keys = new RecentKeys(() => now);
  const text = generateKeyString();
  const [silent, busy] = [keys.ready('silent', text), keys.ready('busy', text)];
  for (let index = 2; index < 2048; index += 1) keys.ready(`web${index}`, text);
  t.not(keys.ready('late', text), keys.ready('late', text), 'nobody makes room yet');
  t.is(keys.ready('silent', text), silent);
  now = 59_999;
  for (let index = 2; index < 2048; index += 1) keys.ready(`web${index}`, text);
  t.is(keys.ready('busy', text), busy);
  t.not(keys.ready('late', text), keys.ready('late', text));
  now = 60_000;
  t.is(keys.ready('late', text), keys.ready('late', text));
  t.is(keys.ready('busy', text), busy);
  t.not(keys.ready('silent', text), silent);
});
