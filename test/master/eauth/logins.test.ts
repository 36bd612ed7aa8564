import { createHmac, createPrivateKey, createPublicKey, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { base64url, exportJWK, importJWK, type JWTPayload, SignJWT } from 'jose';
import { resolveMasterConfig } from '#config';
import type { FunctionResult, LoginRequest } from '#master';
import { AuthenticationError } from '#master';
import type { LoginBackend, Standing } from '#master/users/backend.ts';
import { createBackends } from '#master/users/backends.ts';
import { createKeystoneBackend } from '#master/users/keystone.ts';
import { tries } from '../../helpers/effort.ts';
import { testWhere } from '../../helpers/needs.ts';
import { rsaPair } from '../../helpers/rsa-keys.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { openBench, passwordBackend, startAt } from './clocks.ts';

const good = { username: 'fred', password: 'right', eauth: 'file' };
const bad = { ...good, password: 'wrong' };
const refused = { instanceOf: AuthenticationError, code: 'ERR_EAUTH' } as const;
const limited = { instanceOf: AuthenticationError, code: 'ERR_EAUTH_LIMIT' } as const;
const noToken = { instanceOf: AuthenticationError, code: 'ERR_EAUTH_TOKEN' } as const;

test('a log-in returns a token of 256 bits with its user', async (t) => {
  const { logins } = await openBench(t, { backends: [passwordBackend('right')] });
  const { token, id, ...login } = await logins.login(good);
  t.regex(token, /^[0-9a-f]{64}$/);
  t.deepEqual(login, {
    user: 'fred',
    eauth: 'file',
    groups: ['staff'],
    start: startAt,
    expire: startAt + 43_200_000,
    perms: [],
  });
  const known = await logins.identify(token);
  t.is(known.user, 'fred');
  t.deepEqual(
    logins.list().map((it) => it.id),
    [id],
  );
});

test('two log-ins return different tokens', async (t) => {
  const { logins } = await openBench(t, { backends: [passwordBackend('right')] });
  t.not((await logins.login(good)).token, (await logins.login(good)).token);
});

test('the store has the digest of a token, not the token or the password', async (t) => {
  const { logins, store } = await openBench(t, { backends: [passwordBackend('right')] });
  const { token } = await logins.login(good);
  let count = 0;
  for await (const { key, value } of store.list([])) {
    count += 1;
    const text = `${key.join('/')} ${Buffer.from(value).toString('latin1')}`;
    t.notRegex(text, new RegExp(`${token}|right`));
  }
  t.is(count, 1);
});

test('every failure has the same answer and the same steps of time', async (t) => {
  const { logins, delays } = await openBench(t, { backends: [passwordBackend('right')] });
  const wrong: LoginRequest[] = [
    bad,
    { ...bad, username: 'nobody' },
    { ...good, eauth: 'pam' },
    { ...good, eauth: 'constructor' },
    { ...good, eauth: '__proto__' },
    { ...good, username: 'fred ' },
    { ...good, username: 'fr\0ed' },
    { ...good, username: '' },
    { ...good, username: '-x' },
    { ...good, username: 'f'.repeat(257) },
    { ...good, password: '' },
    { ...good, password: 'right\n' },
    { ...good, password: 'right\0' },
    { ...good, password: 'r'.repeat(1025) },
    { ...good, password: '\ud800' },
  ];
  const texts = new Set<string>();
  for (const request of wrong) {
    const error = await t.throwsAsync(logins.login({ ...request, source: 'x' }), refused);
    texts.add(error?.message ?? '');
  }
  t.is(texts.size, 1);
  t.deepEqual(new Set(delays), new Set([250]));
  t.is(delays.length, wrong.length);
});

test('a slow failure is rounded up to the next quarter of a second', async (t) => {
  const bench = await openBench(t, {
    backends: [
      {
        name: 'file',
        authenticate: async () => {
          bench.pass(260);
          return undefined;
        },
      },
    ],
  });
  await t.throwsAsync(bench.logins.login(bad), refused);
  t.deepEqual(bench.delays, [240]);
});

test('the time of a failure reveals neither known users nor slow back ends', async (t) => {
  const bench = await openBench(t, {
    backends: [
      {
        name: 'file',
        authenticate: async ({ username }) => {
          bench.pass(username === 'fred' ? 600 : 10);
          return undefined;
        },
      },
    ],
  });
  await t.throwsAsync(bench.logins.login(bad), refused);
  await t.throwsAsync(bench.logins.login({ ...bad, username: 'nobody' }), refused);
  await t.throwsAsync(bench.logins.login({ ...bad, eauth: 'pam' }), refused);
  t.deepEqual(bench.delays, [150, 740, 750]);
});

test('a single late answer does not delay all failures', async (t) => {
  const bench = await openBench(t, {
    backends: [
      {
        name: 'file',
        authenticate: async ({ username }) => {
          bench.pass(username === 'fred' ? 9000 : 10);
          return undefined;
        },
      },
    ],
  });
  await t.throwsAsync(bench.logins.login(bad), refused);
  await t.throwsAsync(bench.logins.login({ ...bad, username: 'nobody' }), refused);
  t.deepEqual(bench.delays, [250, 240]);
});

test('a password that is not text is refused like a wrong one', async (t) => {
  const { logins } = await openBench(t, { backends: [passwordBackend('right')] });
  await fc.assert(
    fc.asyncProperty(fc.anything(), fc.anything(), async (username, password) => {
      fc.pre(typeof username !== 'string' || typeof password !== 'string');
      const request = { username, password, eauth: 'file' } as unknown as LoginRequest;
      await t.throwsAsync(logins.login(request), refused);
    }),
    tries(50),
  );
});

test('five failures in a minute lock out only that user from that source', async (t) => {
  const { logins, pass } = await openBench(t, { backends: [passwordBackend('right')] });
  for (let count = 0; count < 5; count += 1) {
    await t.throwsAsync(logins.login({ ...bad, source: 'a' }), refused);
  }
  await t.throwsAsync(logins.login({ ...good, source: 'a' }), limited);
  await t.notThrowsAsync(logins.login({ ...good, source: 'b' }));
  await t.notThrowsAsync(logins.login({ ...good, username: 'gina', source: 'a' }));
  pass(60_001);
  await t.notThrowsAsync(logins.login({ ...good, source: 'a' }));
});

test('failures of one user are counted together, for any spelling of the name', async (t) => {
  const { logins } = await openBench(t, { backends: [passwordBackend('right')] });
  for (const username of ['fred', 'FRED', 'Fred', '\uff46red', 'fRED']) {
    await t.throwsAsync(logins.login({ ...bad, username, source: 'a' }), refused);
  }
  for (const username of ['fred', 'FReD']) {
    await t.throwsAsync(logins.login({ ...good, username, source: 'a' }), limited);
  }
});

test('simultaneous attempts do not bypass the limit', async (t) => {
  let asked = 0;
  const { logins } = await openBench(t, {
    backends: [
      {
        name: 'file',
        authenticate: async () => {
          asked += 1;
          return undefined;
        },
      },
    ],
  });
  await Promise.allSettled(Array.from({ length: 12 }, () => logins.login(bad)));
  t.is(asked, 5);
});

test('failures of many users do not evict those of one user', async (t) => {
  const { logins } = await openBench(t, { backends: [passwordBackend('right')] });
  for (let count = 0; count < 5; count += 1) {
    await t.throwsAsync(logins.login({ ...bad, source: 'victim' }), refused);
  }
  for (let count = 0; count < 1500; count += 1) {
    const other = { ...bad, username: `u${count}`, source: 'flood' };
    await t.throwsAsync(logins.login(other), refused);
  }
  await t.throwsAsync(logins.login({ ...bad, source: 'victim' }), limited);
});

test('concurrent log-ins of a source are limited, and others can log in meanwhile', async (t) => {
  const waiting: (() => void)[] = [];
  const { logins } = await openBench(t, {
    backends: [passwordBackend('right')],
    delay: () => new Promise((resolve) => waiting.push(resolve)),
  });
  const failing = Array.from({ length: 16 }, (_, index) =>
    logins.login({ ...bad, username: `u${index}`, source: 'flood' }),
  );
  await t.throwsAsync(logins.login({ ...good, source: 'flood' }), limited);
  await t.notThrowsAsync(logins.login({ ...good, source: 'elsewhere' }));
  const ended = Promise.allSettled(failing);
  while (waiting.length < 16) await new Promise((resolve) => setImmediate(resolve));
  for (const resolve of waiting) resolve();
  await ended;
  await t.notThrowsAsync(logins.login({ ...good, source: 'flood' }));
});

test('endless addresses take no slots from those with successful log-ins', async (t) => {
  const waiting: (() => void)[] = [];
  const backend = passwordBackend('right');
  const { logins } = await openBench(t, {
    backends: [
      {
        ...backend,
        authenticate: async (given, signal) => {
          if (given.password === bad.password) await new Promise<void>((go) => waiting.push(go));
          return backend.authenticate(given, signal);
        },
      },
    ],
  });
  const home = { ...good, source: 'home' };
  await logins.login(home);
  const failing = Array.from({ length: 256 }, (_, index) =>
    logins.login({ ...bad, username: `u${index}`, source: `stranger ${index}` }),
  );
  const ended = Promise.allSettled(failing);
  const isOver = ended.then(() => true);
  await t.throwsAsync(logins.login({ ...good, source: 'another stranger' }), limited);
  await t.notThrowsAsync(logins.login(home));
  // This is the maximum number of concurrent calls of the back end.
  while (!(await Promise.race([isOver, nextTurn()]))) for (const go of waiting.splice(0)) go();
  await t.notThrowsAsync(logins.login({ ...good, source: 'another stranger' }));
});

function nextTurn(): Promise<boolean> {
  return new Promise((resolve) => setImmediate(() => resolve(false)));
}

test('a token expires at its time, also if it was never used', async (t) => {
  const { logins, pass, store } = await openBench(t, {
    backends: [passwordBackend('right')],
    config: { eauth: { tokenExpire: 60 } },
  });
  const { token } = await logins.login(good);
  pass(59_999);
  await t.notThrowsAsync(logins.identify(token));
  pass(1);
  await t.throwsAsync(logins.identify(token), noToken);
  t.deepEqual(logins.list(), []);
  t.is(
    await store
      .list(['tokens'])
      [Symbol.asyncIterator]()
      .next()
      .then((it) => it.done),
    true,
  );
});

test('a clock that is turned back does not revive a token', async (t) => {
  const { logins, clock, pass, restart } = await openBench(t, {
    backends: [passwordBackend('right')],
    config: { eauth: { tokenExpire: 60 } },
  });
  const { token } = await logins.login(good);
  clock.now -= 3_600_000;
  await t.notThrowsAsync(logins.identify(token));
  pass(60_000);
  await t.throwsAsync(logins.identify(token), noToken);
  clock.now = startAt;
  await t.throwsAsync((await restart()).identify(token), noToken);
});

test('a clock that jumps past the expiry of a token ends it', async (t) => {
  const { logins, clock } = await openBench(t, { backends: [passwordBackend('right')] });
  const { token, expire } = await logins.login(good);
  clock.now = expire;
  await t.throwsAsync(logins.identify(token), noToken);
  clock.now = startAt;
  await t.throwsAsync(logins.identify(token), noToken);
});

test('a token from the future is removed at the start', async (t) => {
  const { logins, clock, restart } = await openBench(t, { backends: [passwordBackend('right')] });
  const { token } = await logins.login(good);
  t.is((await (await restart()).identify(token)).user, 'fred');
  clock.now -= 1000;
  await t.throwsAsync((await restart()).identify(token), noToken);
});

test('logout and revocation take effect at once, and survive a restart', async (t) => {
  const { logins, restart } = await openBench(t, { backends: [passwordBackend('right')] });
  const [a, b, c] = [
    await logins.login(good),
    await logins.login(good),
    await logins.login({ ...good, username: 'gina' }),
  ];
  t.true(await logins.logout(a.token));
  t.false(await logins.logout(a.token));
  t.deepEqual(
    (await logins.revoke({ user: 'fred' })).map(({ id }) => id),
    [b.id],
  );
  await t.throwsAsync(logins.identify(a.token), noToken);
  await t.throwsAsync(logins.identify(b.token), noToken);
  const later = await restart();
  await t.throwsAsync(later.identify(b.token), noToken);
  t.is((await later.identify(c.token)).user, 'gina');
});

test('a malformed token is unknown', async (t) => {
  const { logins } = await openBench(t, { backends: [passwordBackend('right')] });
  const { token, id } = await logins.login(good);
  for (const other of [
    '',
    '../../etc/passwd',
    token.toUpperCase(),
    `${token}\n`,
    id,
    token.slice(1),
  ]) {
    await t.throwsAsync(logins.identify(other), noToken);
  }
});

test('the token of a deleted user ends within a minute', async (t) => {
  const standing: { current: Standing | Error } = {
    current: { state: 'valid', groups: ['staff'] },
  };
  const { logins, pass } = await openBench(t, { backends: [passwordBackend('right', standing)] });
  const { token } = await logins.login(good);
  standing.current = { state: 'gone' };
  pass(31_000);
  await t.throwsAsync(logins.identify(token), noToken);
  standing.current = { state: 'valid', groups: ['staff'] };
  await t.throwsAsync(logins.identify(token), noToken);
});

test('changed groups of a user apply within a minute', async (t) => {
  const standing: { current: Standing } = { current: { state: 'valid', groups: ['staff'] } };
  const { logins, pass } = await openBench(t, { backends: [passwordBackend('right', standing)] });
  const { token } = await logins.login(good);
  standing.current = { state: 'valid', groups: ['staff', 'admins'] };
  pass(31_000);
  t.deepEqual((await logins.identify(token)).groups, ['staff', 'admins']);
});

test('while a back end is unreachable, its tokens are refused but not ended', async (t) => {
  const standing: { current: Standing | Error } = {
    current: { state: 'valid', groups: [] },
  };
  const { logins, pass } = await openBench(t, { backends: [passwordBackend('right', standing)] });
  const { token } = await logins.login(good);
  standing.current = new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'down');
  pass(31_000);
  await t.throwsAsync(logins.identify(token), { code: 'ERR_EAUTH_UNAVAILABLE' });
  standing.current = { state: 'valid', groups: [] };
  await t.notThrowsAsync(logins.identify(token));
});

test('an unreachable back end does not count as a failure', async (t) => {
  const { logins } = await openBench(t, {
    backends: [
      {
        name: 'file',
        authenticate: async () => {
          throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'down');
        },
      },
    ],
  });
  for (let count = 0; count < 8; count += 1) {
    await t.throwsAsync(logins.login(good), { code: 'ERR_EAUTH_UNAVAILABLE' });
  }
});

test('tokens of a back end that is no longer configured are refused', async (t) => {
  const { logins } = await openBench(t, { backends: [passwordBackend('right')] });
  const { token } = await logins.login(good);
  logins.configure(new Map());
  await t.throwsAsync(logins.identify(token), noToken);
});

test('a token lasts an hour if the back end cannot check whether its user may still log in', async (t) => {
  const { standingOf: _, ...blind } = passwordBackend('right');
  const { logins } = await openBench(t, { backends: [blind] });
  const { expire, start } = await logins.login(good);
  t.is(expire - start, 3_600_000);
});

test('a token ends with the proof of its back end', async (t) => {
  const backend = {
    ...passwordBackend('right'),
    authenticate: async () => ({ user: 'fred', groups: [], until: startAt + 5000 }),
  };
  const { logins } = await openBench(t, { backends: [backend] });
  t.is((await logins.login(good)).expire, startAt + 5000);
});

test('only users named by token_expire_user_override may choose the lifetime of a token', async (t) => {
  const lifeOf = async (tokenExpireUserOverride: boolean | Record<string, string[]>) => {
    const { logins } = await openBench(t, {
      backends: [passwordBackend('right')],
      config: { eauth: { tokenExpireUserOverride } },
    });
    const { expire, start } = await logins.login({ ...good, tokenExpireSeconds: 90_000 });
    return (expire - start) / 1000;
  };
  t.is(await lifeOf(false), 43_200);
  t.is(await lifeOf({ file: ['gina'], pam: ['fred'] }), 43_200);
  t.is(await lifeOf({ file: ['fred'] }), 90_000);
  t.is(await lifeOf(true), 90_000);
});

test('a held token signals when it ends', async (t) => {
  const { logins } = await openBench(t, { backends: [passwordBackend('right')] });
  const { token } = await logins.login(good);
  const other = await logins.login(good);
  const held = await logins.hold(token);
  const stays = await logins.hold(other.token);
  await logins.logout(token);
  t.true(held.ended.aborted);
  t.false(stays.ended.aborted);
  held.stop();
  stays.stop();
});

test('keep_acl_in_token stores the rights of the log-in with the token', async (t) => {
  const { logins } = await openBench(t, {
    backends: [passwordBackend('right')],
    config: { eauth: { keepAclInToken: true } },
    rightsOf: () => ['test.*'],
  });
  t.deepEqual((await logins.identify((await logins.login(good)).token)).rights, ['test.*']);
});

// Tokens of an identity provider, which are created by jose. The provider serves its keys over
// HTTP.

const issuer = 'https://idp.example';
const audience = 'saltbridge';
/** Current time, in seconds since 1970. */
const now = 1_700_000_000;

interface Provider {
  readonly backend: LoginBackend;
  /** Options in `external_auth: jwt:`. */
  readonly options: Readonly<Record<string, string>>;
  /** Returns a valid token of fred, with changed claims. */
  token(claims?: JWTPayload, algorithm?: string): Promise<string>;
  readonly publicPem: string;
  close(): void;
}

/**
 * Starts a provider.
 * @param pair - index of the key pair with which it signs
 */
async function startProvider(t: ExecutionContext, pair = 0, kid = 'k1'): Promise<Provider> {
  const { privatePem, publicPem } = rsaPair(pair);
  const privateKey = createPrivateKey(privatePem);
  const jwk = { ...(await exportJWK(createPublicKey(publicPem))), kid, use: 'sig' };
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ keys: [jwk] }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  const options = {
    '^issuer': issuer,
    '^audience': audience,
    '^jwks_uri': `http://127.0.0.1:${address.port}/keys`,
  };
  const config = resolveMasterConfig({ externalAuth: { jwt: { ...options, fred: ['.*'] } } });
  const backend = createBackends(config, () => now * 1000).get('jwt');
  if (backend === undefined) throw new Error('there is no back end');
  const usual = { sub: 'fred', iss: issuer, aud: audience, exp: now + 600, groups: ['ops', 7] };
  return {
    backend,
    options,
    token: async (claims = {}, alg = 'RS256') =>
      new SignJWT({ ...usual, ...claims })
        .setProtectedHeader({ alg, kid })
        .sign(await importJWK(await exportJWK(privateKey), alg)),
    publicPem,
    close: () => server.close(),
  };
}

function ask(backend: LoginBackend, password: string, username = 'fred'): Promise<unknown> {
  return backend.authenticate({ username, password }, AbortSignal.timeout(20_000));
}

test('keys of an identity provider are read up to a limit', async (t) => {
  const { token, options } = await startProvider(t);
  const [space, end] = [Buffer.alloc(65_536, ' '), '{"keys":[]}'];
  let parts = 0;
  const server = createServer((_, response) => {
    for (let part = 0; part < parts; part += 1) response.write(space);
    response.end(end);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  const jwt = {
    ...options,
    '^jwks_uri': `http://127.0.0.1:${address.port}/keys`,
    fred: ['.*'],
  };
  const backendOf = (): LoginBackend | undefined =>
    createBackends(resolveMasterConfig({ externalAuth: { jwt } }), () => now * 1000).get('jwt');
  const logIn = async (): Promise<unknown> => {
    const backend = backendOf();
    return backend && ask(backend, await token());
  };
  // Without a matching key, the token is invalid.
  t.is(await logIn(), undefined);
  parts = 9;
  await t.throwsAsync(logIn(), { code: 'ERR_EAUTH_UNAVAILABLE' });
});

test('a token of the provider logs in its user, with its groups, until it expires', async (t) => {
  const { backend, token } = await startProvider(t);
  t.deepEqual(await ask(backend, await token()), {
    user: 'fred',
    groups: ['ops'],
    until: (now + 600) * 1000,
  });
  t.is(await ask(backend, await token(), 'gina'), undefined);
});

test('a token of another issuer or audience, too old, or without an expiry is refused', async (t) => {
  const { backend, token } = await startProvider(t);
  const wrong: JWTPayload[] = [
    { iss: 'https://other.example' },
    { aud: 'other' },
    { exp: now - 31 },
    { nbf: now + 31 },
    { sub: '' },
  ];
  for (const claims of wrong) t.is(await ask(backend, await token(claims)), undefined);
  const { exp: _, ...endless } = { iss: issuer, aud: audience, sub: 'fred', exp: 0 };
  const unsigned = (header: object, claims: object): string =>
    [header, claims].map((it) => base64url.encode(JSON.stringify(it))).join('.');
  t.is(await ask(backend, `${unsigned({ alg: 'RS256', kid: 'k1' }, endless)}.AAAA`), undefined);
});

test('a token without signature, or signed with the public key as a secret, is refused', async (t) => {
  const { backend, token, publicPem } = await startProvider(t);
  const [, claims] = (await token()).split('.');
  const header = (alg: string): string =>
    base64url.encode(JSON.stringify({ alg, kid: 'k1', typ: 'JWT' }));
  t.is(await ask(backend, `${header('none')}.${claims}.`), undefined);
  const text = `${header('HS256')}.${claims}`;
  const mac = createHmac('sha256', publicPem).update(text).digest('base64url');
  t.is(await ask(backend, `${text}.${mac}`), undefined);
});

test('an algorithm that is not listed is refused, even if the key fits', async (t) => {
  const { backend, token } = await startProvider(t);
  t.is(await ask(backend, await token({}, 'RS512')), undefined);
});

test('a key that the provider does not have is refused', async (t) => {
  const { backend } = await startProvider(t);
  const other = await startProvider(t, 1);
  t.is(await ask(backend, await other.token()), undefined);
  const third = await startProvider(t, 2, 'k2');
  t.is(await ask(backend, await third.token()), undefined);
});

test('an unreachable provider does not count as a wrong password', async (t) => {
  const { backend, token, close } = await startProvider(t);
  close();
  const password = await token();
  await t.throwsAsync(ask(backend, password), { code: 'ERR_EAUTH_UNAVAILABLE' });
});

test('symmetric algorithms, none, and keys over plain http are invalid options', (t) => {
  const base = { '^issuer': issuer, '^audience': audience, '^jwks_uri': 'https://idp.example/k' };
  const isServed = (options: Record<string, unknown>): boolean =>
    createBackends(
      resolveMasterConfig({ externalAuth: { jwt: { ...base, ...options } } }),
      Date.now,
    ).has('jwt');
  t.true(isServed({}));
  for (const name of ['none', 'HS256', 'HS512', 'dir']) {
    t.false(isServed({ '^algorithms': ['RS256', name] }), name);
  }
  t.false(isServed({ '^algorithms': [] }));
  t.false(isServed({ '^jwks_uri': 'http://idp.example/k' }));
  t.false(isServed({ '^issuer': null }));
});

test('groups named by the provider give the rights of groups', async (t) => {
  const { options, token } = await startProvider(t);
  const { master } = await startVectorMaster(t, {
    config: { externalAuth: { jwt: { ...options, 'ops%': ['@jobs'] } } },
  });
  const jobsOf = async (claims: JWTPayload): Promise<FunctionResult> => {
    const credentials = { username: 'fred', password: await token(claims), eauth: 'jwt' };
    const login = await master.logins.login(credentials);
    return master.asUser(login.token).runners.run({ fun: 'jobs.list_jobs' });
  };
  t.true((await jobsOf({})).success);
  await t.throwsAsync(jobsOf({ groups: ['ops2'] }), { code: 'ERR_DENIED' });
});

// Log-ins with a real Keystone. `KEYSTONE_ENV` is the path of a JSON file with `keystone` (its
// address, ending in /v3) and `users: {admin: {password}}`, the administrator of the domain
// Default; without it these tests are skipped.

const file = process.env.KEYSTONE_ENV;
const withKeystone = testWhere(file !== undefined, 'KEYSTONE_ENV');
const signal = (): AbortSignal => AbortSignal.timeout(30_000);

interface Administrator {
  readonly authUrl: string;
  /** Calls Keystone's API. */
  ask(method: string, path: string, body?: object): Promise<Record<string, { id: string }>>;
}

/** A user in one group. It is deleted at the end of the test. */
interface NewUser extends Administrator {
  readonly name: string;
  readonly id: string;
  readonly password: string;
}

async function openAdministrator(): Promise<Administrator> {
  const { keystone, users } = JSON.parse(readFileSync(file ?? '', 'utf8'));
  const domain = { name: 'Default' };
  const user = { name: 'admin', domain, password: users.admin.password };
  const identity = { methods: ['password'], password: { user } };
  const project = { name: users.admin.project ?? 'admin', domain };
  const answer = await fetch(`${keystone}/auth/tokens`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ auth: { identity, scope: { project } } }),
  });
  const token = answer.headers.get('x-subject-token') ?? '';
  return {
    authUrl: keystone,
    ask: async (method, path, body) => {
      const response = await fetch(keystone + path, {
        method,
        headers: { 'x-auth-token': token, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status}`);
      return response.status === 204 ? {} : JSON.parse(await response.text());
    },
  };
}

async function createUser(t: ExecutionContext): Promise<NewUser> {
  const administrator = await openAdministrator();
  const { ask } = administrator;
  const name = `saltbridge-${randomBytes(6).toString('hex')}`;
  const password = randomBytes(12).toString('hex');
  const { user } = await ask('POST', '/users', { user: { name, password, domain_id: 'default' } });
  const { group } = await ask('POST', '/groups', { group: { name, domain_id: 'default' } });
  if (user === undefined || group === undefined) throw new Error('nothing was made');
  t.teardown(() => ask('DELETE', `/groups/${group.id}`));
  t.teardown(() => ask('DELETE', `/users/${user.id}`));
  await ask('PUT', `/groups/${group.id}/users/${user.id}`);
  return { ...administrator, name, id: user.id, password };
}

withKeystone(
  'a user of Keystone logs in, with groups, until the Keystone token expires',
  async (t) => {
    const { authUrl, name, password } = await createUser(t);
    const keystone = createKeystoneBackend({ authUrl, domain: 'Default' });
    const found = await keystone.authenticate({ username: name, password }, signal());
    t.is(found?.user, name);
    t.deepEqual(found?.groups, [name]);
    t.true((found?.until ?? 0) > Date.now());
    const refused = [
      { username: name, password: 'wrong' },
      { username: name.toUpperCase(), password },
      { username: 'nobody', password },
    ];
    for (const credentials of refused) {
      t.is(await keystone.authenticate(credentials, signal()), undefined);
    }
    const other = createKeystoneBackend({ authUrl: `${authUrl}/`, domain: 'Other' });
    t.is(await other.authenticate({ username: name, password }, signal()), undefined);
  },
);

withKeystone(
  'a disabled user is gone, and so is a user that Keystone does not remember',
  async (t) => {
    const { authUrl, name, password, id, ask } = await createUser(t);
    const keystone = createKeystoneBackend({ authUrl, domain: 'Default' });
    const user = { user: name, groups: [] };
    t.deepEqual(await keystone.standingOf?.(user, signal()), { state: 'gone' });
    await keystone.authenticate({ username: name, password }, signal());
    t.deepEqual(await keystone.standingOf?.(user, signal()), { state: 'valid', groups: [name] });
    await ask('PATCH', `/users/${id}`, { user: { enabled: false } });
    t.deepEqual(await keystone.standingOf?.(user, signal()), { state: 'gone' });
    t.is(await keystone.authenticate({ username: name, password }, signal()), undefined);
  },
);

test('an unreachable Keystone does not count as a wrong password', async (t) => {
  const keystone = createKeystoneBackend({ authUrl: 'http://127.0.0.1:1/v3', domain: 'Default' });
  const asking = keystone.authenticate({ username: 'fred', password: 'x' }, signal());
  await t.throwsAsync(asking, { instanceOf: AuthenticationError, code: 'ERR_EAUTH_UNAVAILABLE' });
});

test('an address of version 2.0 is reported at the start', async (t) => {
  const at = (authUrl: string) => createKeystoneBackend({ authUrl, domain: 'Default' });
  t.regex(
    (await at('http://localhost:35357/v2.0').obstacle?.()) ?? '',
    /Keystone no longer supports/,
  );
  t.is(await at('http://localhost:5000/v3').obstacle?.(), undefined);
});

const abortSignal = AbortSignal.timeout(30_000);

test('a user with the shared secret may choose any name', async (t) => {
  const config = resolveMasterConfig({
    externalAuth: { sharedsecret: { fred: ['.*'] } },
    eauth: { sharedsecret: 'between us' },
  });
  const backend = createBackends(config, () => 0).get('sharedsecret');
  const ask = (password: string) =>
    backend?.authenticate({ username: 'fred', password }, abortSignal);
  t.deepEqual(await ask('between us'), { user: 'fred', groups: [] });
  for (const other of ['between u', 'between us!', 'x']) t.is(await ask(other), undefined);
});

test('auto accepts every user, once that is confirmed', async (t) => {
  const externalAuth = { auto: { fred: ['.*'] } };
  const backends = createBackends(
    resolveMasterConfig({ externalAuth, confirmAutoEauth: true }),
    () => 0,
  );
  const given = { username: 'fred', password: 'x' };
  t.is((await backends.get('auto')?.authenticate(given, abortSignal))?.user, 'fred');
  t.false(createBackends(resolveMasterConfig({ externalAuth }), () => 0).has('auto'));
});

test('a reload keeps a back end with unchanged options, including its state', (t) => {
  const externalAuth = { keystone: { fred: ['.*'] } };
  const of = (keystoneAuthUrl: string, users: object = externalAuth) =>
    resolveMasterConfig({ externalAuth: { ...users }, eauth: { keystoneAuthUrl } });
  const before = createBackends(of('http://a/v3'), () => 0);
  const ask = (backends: typeof before) => backends.get('keystone')?.authenticate;
  const moreUsers = { keystone: { fred: ['.*'], ann: ['.*'] } };
  t.is(ask(createBackends(of('http://a/v3', moreUsers), () => 0, before)), ask(before));
  t.not(ask(createBackends(of('http://b/v3'), () => 0, before)), ask(before));
});
