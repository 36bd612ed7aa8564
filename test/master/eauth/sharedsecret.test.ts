import test from 'ava';
import { resolveMasterConfig } from '../../../master/index.ts';
import { createBackends } from '../../../master/users/backends.ts';

const signal = AbortSignal.timeout(30_000);

test('with the shared secret, one is whoever one says', async (t) => {
  const config = resolveMasterConfig({
    externalAuth: { sharedsecret: { fred: ['.*'] } },
    eauth: { sharedsecret: 'between us' },
  });
  const backend = createBackends(config, () => 0).get('sharedsecret');
  const ask = (password: string) => backend?.authenticate({ username: 'fred', password }, signal);
  t.deepEqual(await ask('between us'), { user: 'fred', groups: [] });
  for (const other of ['between u', 'between us!', 'x']) t.is(await ask(other), undefined);
});

test('auto lets in everybody, once that is confirmed', async (t) => {
  const externalAuth = { auto: { fred: ['.*'] } };
  const backends = createBackends(
    resolveMasterConfig({ externalAuth, confirmAutoEauth: true }),
    () => 0,
  );
  const given = { username: 'fred', password: 'x' };
  t.is((await backends.get('auto')?.authenticate(given, signal))?.user, 'fred');
  t.false(createBackends(resolveMasterConfig({ externalAuth }), () => 0).has('auto'));
});

test('a reload keeps a back end whose options are the same, with what it remembers', (t) => {
  const externalAuth = { keystone: { fred: ['.*'] } };
  const of = (keystoneAuthUrl: string, users: object = externalAuth) =>
    resolveMasterConfig({ externalAuth: { ...users }, eauth: { keystoneAuthUrl } });
  const before = createBackends(of('http://a/v3'), () => 0);
  const ask = (backends: typeof before) => backends.get('keystone')?.authenticate;
  const moreUsers = { keystone: { fred: ['.*'], ann: ['.*'] } };
  t.is(ask(createBackends(of('http://a/v3', moreUsers), () => 0, before)), ask(before));
  t.not(ask(createBackends(of('http://b/v3'), () => 0, before)), ask(before));
});
