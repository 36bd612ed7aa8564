/** How long an answer of Keystone's holds. */
import { once } from 'node:events';
import test from 'ava';
import fc from 'fast-check';
import { KeystoneTokens, looksLikeKeystoneToken } from '../../../heat-bridge/keystone.ts';
import { AuthenticationError, type IdentityToken, readToken } from '../../../master/index.ts';
import { within } from '../../helpers/deadline.ts';
import { exchangeOf, tokenOf } from './recorded-keystone.ts';

const token = tokenOf('trove');
const none = { instanceOf: AuthenticationError, code: 'ERR_EAUTH_TOKEN' } as const;

/** Keystone's answers, from a clock that a test turns. */
function stage(answer: () => IdentityToken | undefined) {
  const clock = { now: 0 };
  let asked = 0;
  const tokens = new KeystoneTokens({
    validate: async () => {
      asked += 1;
      return answer();
    },
    now: () => clock.now,
    monotonic: () => clock.now,
  });
  return { tokens, clock, asked: () => asked };
}

function recorded(name: 'trove' | 'unscoped' = 'trove'): IdentityToken {
  const found = readToken(JSON.parse(exchangeOf(name).body));
  if (found === undefined) throw new TypeError('no token');
  return { ...found, expiresAt: 3_600_000 };
}

test('an answer is asked for once in half a minute', async (t) => {
  const { tokens, clock, asked } = stage(recorded);
  t.teardown(() => tokens.close());
  const held = await Promise.all([tokens.hold(token), tokens.hold(token)]);
  for (const { subject, stop } of held) {
    t.like(subject, { kind: 'project', project: { name: 'databases' }, user: { name: 'trove' } });
    stop();
  }
  clock.now = 29_999;
  (await tokens.hold(token)).stop();
  t.is(asked(), 1);
  clock.now = 30_000;
  (await tokens.hold(token)).stop();
  t.is(asked(), 2);
});

test('a token ends when it says so, whatever was answered before', async (t) => {
  const { tokens, clock } = stage(() => ({ ...recorded(), expiresAt: 10_000 }));
  t.teardown(() => tokens.close());
  clock.now = 9_999;
  (await tokens.hold(token)).stop();
  clock.now = 10_000;
  await t.throwsAsync(tokens.hold(token), none);
});

test('a token for no project is nobody here', async (t) => {
  const { tokens } = stage(() => recorded('unscoped'));
  t.teardown(() => tokens.close());
  await t.throwsAsync(tokens.hold(token), none);
});

test('what was begun ends when Keystone revokes the token', async (t) => {
  let isRevoked = false;
  const { tokens, clock } = stage(() => (isRevoked ? undefined : recorded()));
  t.teardown(() => tokens.close());
  const { ended } = await tokens.hold(token);
  isRevoked = true;
  t.false(ended.aborted);
  clock.now = 30_000;
  await within('the end of the token', once(ended, 'abort'));
  await t.throwsAsync(tokens.hold(token), none);
});

test('what is held ends when Keystone is away for longer than an answer holds', async (t) => {
  let isAway = false;
  const { tokens, clock } = stage(() => {
    if (isAway) throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'away');
    return recorded();
  });
  t.teardown(() => tokens.close());
  const { ended } = await tokens.hold(token);
  isAway = true;
  (await tokens.hold(token)).stop();
  clock.now = 30_000;
  await t.throwsAsync(tokens.hold(token), { code: 'ERR_EAUTH_UNAVAILABLE' });
  await within('the end of the token', once(ended, 'abort'));
});

test('no more than 256 tokens wait for Keystone', async (t) => {
  const waiting: ((found: undefined) => void)[] = [];
  const tokens = new KeystoneTokens({
    validate: () => new Promise((resolve) => waiting.push(resolve)),
    now: () => 0,
    monotonic: () => 0,
  });
  t.teardown(() => tokens.close());
  const held = Array.from({ length: 256 }, (_, at) => tokens.hold(`${token}${at}`));
  const codes = Promise.allSettled(held);
  await t.throwsAsync(tokens.hold(`${token}x`), { code: 'ERR_EAUTH_LIMIT' });
  t.is(waiting.length, 8);
  while ((await Promise.race([codes, Promise.resolve(undefined)])) === undefined) {
    for (const resolve of waiting.splice(0)) resolve(undefined);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await t.throwsAsync(Promise.all(held), none);
});

test("no token of the master's, nor what was cut off or written large of one, has Keystone's form", (t) => {
  const hex = fc.stringMatching(/^[0-9a-f]{1,64}$|^[0-9A-F]{64}$/);
  fc.assert(fc.property(hex, (text) => !looksLikeKeystoneToken(text)));
  for (const name of ['trove', 'unknown'] as const) t.true(looksLikeKeystoneToken(tokenOf(name)));
  t.true(looksLikeKeystoneToken(`eyJhbGciOiJFUzI1NiJ9.${'e'.repeat(80)}.${'s'.repeat(86)}`));
  for (const text of [`${token}\r\nx: y`, `${token} `, 'short', 'g'.repeat(2049), '']) {
    t.false(looksLikeKeystoneToken(text));
  }
});
