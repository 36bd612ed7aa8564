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

function dialling(t: ExecutionContext, slowMs = 60_000): Dialling {
  const attempts: Attempt[] = [];
  const attempt: DialAttempt<string> = (signal, progress) =>
    new Promise((resolve, reject) => attempts.push({ signal, progress, resolve, reject }));
  const end = new AbortController();
  t.teardown(() => end.abort());
  const options = { signal: end.signal, onUnreached: () => {}, intervalMs: 1, slowMs };
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

test('on a slow link the first three that reach the centre continue, and all others end', async (t) => {
  const { attempts, result } = dialling(t, 0);
  for (let count = 1; count <= 5; count += 1) {
    attempts.at(-1)?.progress.onResolved();
    await eventually(() => attempts.length > count);
  }
  for (const index of [4, 0]) attempts[index]?.progress.onReached();
  t.true(attempts.every(({ signal }) => !signal.aborted));
  attempts[2]?.progress.onReached();
  t.deepEqual(
    attempts.map(({ signal }) => signal.aborted),
    [false, true, false, true, false, true],
  );
  for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
  t.is(attempts.length, 6);
  attempts[0]?.reject(lost);
  await eventually(() => attempts.length === 7);
  attempts[4]?.resolve('fifth');
  t.is(await result, 'fifth');
  t.true(attempts[2]?.signal.aborted);
});

test('on a fast link an attempt that reaches the centre second must not continue', async (t) => {
  const { attempts } = dialling(t);
  attempts[0]?.progress.onResolved();
  await eventually(() => attempts.length === 2);
  attempts[1]?.progress.onReached();
  t.true(attempts[0]?.signal.aborted);
  const { attempts: others } = dialling(t, 0);
  for (let count = 1; count <= 3; count += 1) {
    others.at(-1)?.progress.onResolved();
    await eventually(() => others.length > count);
  }
  for (const index of [0, 1, 2]) others[index]?.progress.onReached();
  t.true(others[3]?.signal.aborted);
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
