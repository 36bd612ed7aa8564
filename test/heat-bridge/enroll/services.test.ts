/** Enrolments over HTTP: each is judged by the id and the project that it names. */
import test, { type ExecutionContext } from 'ava';
import { allow } from '../../../acl/index.ts';
import { createBridge } from '../../../heat-bridge/index.ts';
import { createSaltApi } from '../../../salt-api/index.ts';
import { type ApiAnswer, json, password, send } from '../../helpers/salt-api.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';

const rule = allow('enrols', {
  subject: { user: 'trove' },
  action: 'command',
  resource: {
    fun: 'bridge.enroll.*',
    arguments: [{ kwargs: { id: 'trove-*', project: 'shop' } }],
  },
});
const machine = { id: 'trove-1', project: 'shop', format: 'none' };

async function open(t: ExecutionContext, enroll: object = {}) {
  const bridge = createBridge();
  const { master } = await startVectorMaster(t, {
    startAt: Date.now(),
    keys: [],
    extensions: [bridge],
    config: {
      externalAuth: { sharedsecret: { trove: ['test.*'], sahara: ['test.*'] } },
      eauth: { sharedsecret: password },
      acl: { rules: [rule] },
      bridge: { enroll },
    },
  });
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const ask = (token: string, request: string, body?: object): Promise<ApiAnswer> => {
    const [method = '', path = ''] = request.split(' ');
    const headers = body === undefined ? { 'x-auth-token': token } : json(token);
    return send(port, { method, path: `/bridge/v1/${path}`, headers, body });
  };
  const tokenOf = async (username: string): Promise<string> =>
    (await master.logins.login({ username, password, eauth: 'sharedsecret' })).token;
  return { bridge, ask, tokenOf };
}

test('a service enrols and retires what a rule lets it, and sees no more', async (t) => {
  const { bridge, ask, tokenOf } = await open(t);
  const [trove, sahara] = [await tokenOf('trove'), await tokenOf('sahara')];
  const made = await ask(trove, 'POST enrolments', machine);
  t.is(made.status, 200, made.text);
  const [enrolment] = await bridge.enroll.list();
  t.like(made.json, { enrolment, userData: '' });
  const one = `enrolments/${enrolment?.number}`;
  t.deepEqual((await ask(trove, `GET ${one}`)).json, { ...enrolment });
  for (const [token, request, body, status] of [
    [sahara, 'POST enrolments', machine, 403],
    [trove, 'POST enrolments', { ...machine, id: 'web-1' }, 403],
    [trove, 'POST enrolments', { ...machine, project: 'other' }, 403],
    [trove, 'POST enrolments', { ...machine, more: 1 }, 400],
    ['', 'POST enrolments', machine, 401],
    [sahara, `GET ${one}`, undefined, 403],
    [sahara, `POST ${one}/retire`, {}, 403],
    ['', `GET ${one}`, undefined, 401],
    [trove, 'GET enrolments/none', undefined, 404],
  ] as const) {
    t.is((await ask(token, request, body)).status, status, request);
  }
  t.is((await bridge.enroll.list()).length, 1);
  t.is((await ask(trove, `POST ${one}/retire`, {})).status, 200);
  t.is((await bridge.enroll.show(enrolment?.number ?? '')).state, 'retired');
});

test('a service may raise the lowest protocol of a machine, and not lower it', async (t) => {
  const { bridge, ask, tokenOf } = await open(t, { protocol: 2 });
  const trove = await tokenOf('trove');
  for (const protocol of [0, 1]) {
    const refused = await ask(trove, 'POST enrolments', { ...machine, protocol });
    t.is(refused.status, 400);
    t.regex(refused.text, /protocol: expected 2 or more \(enroll: protocol\), got/);
  }
  t.deepEqual(await bridge.enroll.list(), []);
  for (const protocol of [2, 3]) {
    const { status } = await ask(trove, 'POST enrolments', { ...machine, protocol });
    t.is(status, 200);
  }
  const protocols = (await bridge.enroll.list()).map((it) => it.protocol);
  t.deepEqual(protocols, [2, 3]);
});
