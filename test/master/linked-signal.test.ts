import { getEventListeners } from 'node:events';
import test from 'ava';
import { linkSignals } from '../../runtime/time-limit.ts';

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

test('a linked signal is aborted with the first of its sources, for its reason', (t) => {
  const [one, other] = [new AbortController(), new AbortController()];
  const { signal } = linkSignals(one.signal, undefined, other.signal);
  t.false(signal.aborted);
  other.abort('gone');
  one.abort('late');
  t.is(signal.reason, 'gone');
});

test('a linked signal of one that is aborted already is aborted', (t) => {
  const { signal } = linkSignals(new AbortController().signal, AbortSignal.abort('before'));
  t.is(signal.reason, 'before');
});

test('a linked signal holds none of its sources once one is aborted', (t) => {
  const [one, lasting] = [new AbortController(), new AbortController()];
  linkSignals(one.signal, lasting.signal);
  t.is(listenersOf(lasting.signal), 1);
  one.abort();
  t.is(listenersOf(lasting.signal), 0);
});

test('a linked signal that was let go of hears nothing more', (t) => {
  const lasting = new AbortController();
  const { signal, unlink } = linkSignals(lasting.signal);
  unlink();
  t.is(listenersOf(lasting.signal), 0);
  lasting.abort();
  t.false(signal.aborted);
});
