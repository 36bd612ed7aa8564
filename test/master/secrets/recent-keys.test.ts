import test from 'ava';
import { RecentKeys } from '../../../master/secrets/recent-keys.ts';
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

test('however many minions there are, those who were not heard lately make room', (t) => {
  const keys = new RecentKeys();
  const text = generateKeyString();
  const [idle, busy] = [keys.ready('idle', text), keys.ready('busy', text)];
  for (let index = 0; index < 2047; index += 1) {
    keys.ready(`web${index}`, text);
    t.is(keys.ready('busy', text), busy);
  }
  t.not(keys.ready('idle', text), idle);
});
