/** Delay of a site before it connects to its centre again. */
import test from 'ava';
import { EdgeError } from '#edge/errors.ts';
import { RetryDelay } from '#edge/link/retry-delay.ts';

function failed(message: string, code?: string): EdgeError {
  const cause = Object.assign(new Error(message), code === undefined ? {} : { code });
  return new EdgeError('ERR_SITE_LINK', 'cannot connect to the centre', { cause });
}

test('a site retries at least every 10 seconds while its centre cannot be reached', (t) => {
  const delay = new RetryDelay();
  for (let count = 0; count < 500; count += 1) delay.fail(false, failed('', 'ECONNREFUSED'));
  t.is(delay.maxMs, 10_000);
});

test('a site that its centre rejects retries less often with each failure', (t) => {
  const delay = new RetryDelay();
  const found: number[] = [];
  for (let count = 0; count < 10; count += 1) {
    delay.fail(false, failed('Unexpected server response: 503'));
    found.push(delay.maxMs);
  }
  t.deepEqual(found.slice(0, 3), [1000, 2000, 4000]);
  t.is(found.at(-1), 120_000);
  delay.reset();
  t.is(delay.maxMs, 500);
});

test('the delay of a site stays short if its centre accepts it and the link is cut', (t) => {
  const delay = new RetryDelay();
  for (let count = 0; count < 10; count += 1) delay.fail(true, undefined);
  t.is(delay.maxMs, 4000);
});
