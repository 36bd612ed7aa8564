/** Handles and outbox over HTTP: whoever registers a handle has it alone. */
import test, { type ExecutionContext } from 'ava';
import { allow } from '../../../acl/index.ts';
import { createBridge } from '../../../heat-bridge/index.ts';
import { readAuditLog } from '../../../master/index.ts';
import { createSaltApi } from '../../../salt-api/index.ts';
import { type ApiAnswer, json, password, send } from '../../helpers/salt-api.ts';
import { directories, startVectorMaster } from '../../helpers/vector-master.ts';
import { keys } from '../../helpers/vectors.ts';

const secret = 'tOken-of-the-handle';
const registration = {
  alias: 'ready',
  minions: [keys.minionId],
  signal: { endpoint: 'http://127.0.0.1:1/signal', token: secret },
};
const rule = allow('registers', {
  subject: { user: 'tr*' },
  action: 'command',
  resource: { fun: 'bridge.handle.add', within: keys.minionId },
});

async function open(t: ExecutionContext) {
  const bridge = createBridge();
  const { master, directory } = await startVectorMaster(t, {
    startAt: Date.now(),
    extensions: [bridge],
    config: {
      externalAuth: { sharedsecret: { trove: ['test.*'], trust: ['test.*'], sahara: ['test.*'] } },
      eauth: { sharedsecret: password },
      acl: { rules: [rule] },
    },
  });
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  /** What somebody asks, by a request such as `GET handles`. */
  const as = async (username: string) => {
    const { token } = await master.logins.login({ username, password, eauth: 'sharedsecret' });
    return (request: string, body?: object): Promise<ApiAnswer> => {
      const [method = '', path = ''] = request.split(' ');
      const headers = body === undefined ? { 'x-auth-token': token } : json(token);
      return send(port, { method, path: `/bridge/v1/${path}`, headers, body });
    };
  };
  const audited = async (): Promise<readonly string[]> => {
    await master.audit.flush();
    const lines: string[] = [];
    for await (const { who, action, what, rule } of readAuditLog(directories(directory))) {
      if (/^(handle|outbox)/.test(action)) {
        lines.push(`${who.kind} ${who.name} ${action} ${what} ${rule}`);
      }
    }
    return lines;
  };
  return { bridge, port, as, audited };
}

function codeOf({ status, json: answer }: ApiAnswer): unknown {
  const { error } = Object(answer);
  return [status, Object(error).code];
}

test('who may register a handle has it, and nothing of its secrets comes back', async (t) => {
  const { as, audited, bridge } = await open(t);
  const trove = await as('trove');
  const added = await trove('POST handles', registration);
  t.is(added.status, 200);
  t.like(added.json, { alias: 'ready', owner: 'user:sharedsecret:trove' });
  t.deepEqual((await trove('GET handles')).json, [added.json]);
  t.deepEqual((await trove('GET handles/ready')).json, added.json);
  t.deepEqual((await trove('GET handles/ready/outbox')).json, []);
  t.is((await trove('PUT handles/ready', { ...registration, stack: 's2' })).status, 200);
  t.is((await bridge.handles.show('ready')).stack, 's2');
  const texts = ['handles', 'handles/ready'].map((path) => trove(`GET ${path}`));
  for (const { text } of await Promise.all(texts)) t.false(text.includes(secret));
  t.is((await trove('DELETE handles/ready')).status, 200);
  t.deepEqual(await audited(), [
    'user trove handle.add ready registers',
    'user trove handle.add ready registers',
    'user trove handle.remove ready own-handle',
  ]);
  t.deepEqual((await trove('GET handles')).json, []);
});

test("another's handle is as unknown as none, and cannot be replaced", async (t) => {
  const { as } = await open(t);
  const [trove, trust] = [await as('trove'), await as('trust')];
  await trove('POST handles', registration);
  t.deepEqual((await trust('GET handles')).json, []);
  for (const request of [
    'GET handles/ready',
    'DELETE handles/ready',
    'GET handles/ready/outbox',
    'DELETE handles/ready/outbox',
    'POST handles/ready/outbox/retry',
  ]) {
    const body = request.startsWith('POST') ? {} : undefined;
    t.deepEqual(codeOf(await trust(request, body)), [404, 'ERR_HANDLE_UNKNOWN'], request);
  }
  t.deepEqual(codeOf(await trust('PUT handles/ready', registration)), [409, 'ERR_HANDLE_EXISTS']);
  t.is((await trove('GET handles/ready')).status, 200);
});

test('no handle without a rule, for other minions than the rule names, or without a token', async (t) => {
  const { as, port, bridge } = await open(t);
  const [trove, sahara] = [await as('trove'), await as('sahara')];
  t.deepEqual(codeOf(await sahara('POST handles', registration)), [403, 'ERR_DENIED']);
  const others = { ...registration, minions: [keys.minionId, 'other'] };
  t.deepEqual(codeOf(await trove('POST handles', others)), [403, 'ERR_DENIED']);
  t.deepEqual(codeOf(await trove('POST handles', { alias: 'x' })), [400, 'ERR_HANDLE_FORM']);
  t.deepEqual(codeOf(await trove('POST handles', [registration])), [400, 'ERR_HANDLE_FORM']);
  const nobody = await send(port, {
    method: 'POST',
    path: '/bridge/v1/handles',
    headers: json(),
    body: registration,
  });
  t.deepEqual(codeOf(nobody), [401, 'ERR_EAUTH_TOKEN']);
  t.deepEqual(await bridge.handles.list(), []);
});
