import test, { type ExecutionContext } from 'ava';
import { EdgeError } from '#edge/errors.ts';
import { type DialAttempt, type DialProgress, dial } from '#edge/link/dial.ts';
import { eventually } from './edge-stage.ts';

/** Attempt that a test completes. */
interface Attempt {
  readonly signal: AbortSignal;
  readonly progress: DialProgress;
  resolve(value: string): void;
  reject(error: EdgeError): void;
}

interface Dialling {
  readonly attempts: readonly Attempt[];
  readonly result: Promise<string>;
  readonly end: AbortController;
}

function dialling(t: ExecutionContext): Dialling {
  const attempts: Attempt[] = [];
  const attempt: DialAttempt<string> = (signal, progress) =>
    new Promise((resolve, reject) => attempts.push({ signal, progress, resolve, reject }));
  const end = new AbortController();
  t.teardown(() => end.abort());
  const options = { signal: end.signal, onUnreached: () => {}, intervalMs: 1 };
  const result = dial(attempt, options);
  result.catch(() => {});
  return { attempts, result, end };
}

const lost = new EdgeError('ERR_SITE_LINK', 'lost');

test('a later attempt is used if the first one does not reach the centre', async (t) => {
  const { attempts, result } = dialling(t);
  attempts[0]?.progress.onResolved();
  await eventually(() => attempts.length === 2);
  attempts[1]?.resolve('second');
  t.is(await result, 'second');
  t.true(attempts[0]?.signal.aborted);
});

test('no attempt begins while another one looks up the address', async (t) => {
  const { attempts } = dialling(t);
  for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
  t.is(attempts.length, 1);
  attempts[0]?.progress.onResolved();
  await eventually(() => attempts.length === 2);
});

test('at most fourteen attempts try to reach the centre', async (t) => {
  const { attempts } = dialling(t);
  for (let count = 1; count < 14; count += 1) {
    attempts.at(-1)?.progress.onResolved();
    await eventually(() => attempts.length > count);
  }
  attempts.at(-1)?.progress.onResolved();
  for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
  t.is(attempts.length, 14);
});

test('one attempt continues if it has reached the centre quickly', async (t) => {
  const { attempts, result } = dialling(t);
  attempts[0]?.progress.onReached();
  for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
  t.is(attempts.length, 1);
  attempts[0]?.resolve('first');
  t.is(await result, 'first');
});

test('a refusal ends all attempts, and a lost one only itself', async (t) => {
  const { attempts, result } = dialling(t);
  attempts[0]?.progress.onResolved();
  await eventually(() => attempts.length === 2);
  attempts[0]?.reject(lost);
  await eventually(() => attempts.length >= 2);
  attempts[1]?.reject(new EdgeError('ERR_SITE_REFUSED', 'refused'));
  const error = await t.throwsAsync(result, { instanceOf: EdgeError });
  t.is(error.code, 'ERR_SITE_REFUSED');
});

test('the only attempt fails with its error, and an end ends all', async (t) => {
  const only = dialling(t);
  only.attempts[0]?.reject(lost);
  t.is(await t.throwsAsync(only.result), lost);
  const { attempts, result, end } = dialling(t);
  end.abort();
  await t.throwsAsync(result);
  t.true(attempts[0]?.signal.aborted);
});
