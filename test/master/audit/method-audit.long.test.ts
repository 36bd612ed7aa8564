/** Calls write exactly the audit records that the method table declares. */

import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { localConnection, RemoteError } from '#client';
import { callMethod, openMethodStream } from '#client/rpc-client.ts';
import { resolveMasterConfig } from '#config';
import { createBridge } from '#guests';
import {
  coreMethods,
  type InProcessApi,
  isRpcMethod,
  type RpcMethod,
  type RpcTable,
} from '#master';
import { auditRecords } from '../../helpers/audit-records.ts';
import { password, type RunningApi, startApi } from '../../helpers/salt-api.ts';
import { directories } from '../../helpers/vector-master.ts';

/** Returns parameters for each method. A method that is missing here fails the test. */
function parametersOf(token: string, other: string, target: string): Record<string, object> {
  const pattern = { match: 'nobody*' };
  const job = { tgt: 'web1', fun: 'test.ping' };
  const call = { fun: 'test.arg', arg: ['x'] };
  const credentials = { username: 'limited', password, eauth: 'sharedsecret' };
  return {
    status: {},
    metrics: {},
    minions: {},
    presence: {},
    'keys.list': {},
    'keys.local': {},
    'keys.accept': pattern,
    'keys.reject': pattern,
    'keys.delete': pattern,
    'keys.create': { id: 'made1' },
    'keys.unpin': { id: 'web1' },
    'jobs.publish': job,
    'jobs.run': job,
    'jobs.batch': { ...job, size: 1 },
    'jobs.list': {},
    'jobs.active': {},
    'jobs.show': { jid: '20250101000000000001' },
    'jobs.follow': { jid: '20250101000000000001' },
    'jobs.plan': { tgt: '*' },
    'events.subscribe': {},
    'events.fire': { tag: 'my/tag', data: {} },
    'events.denials': {},
    'runners.run': call,
    'runners.start': call,
    'runners.docs': {},
    'wheel.run': { fun: 'key.list_all' },
    'wheel.start': { fun: 'key.list_all' },
    'wheel.docs': {},
    'store.backup': { target },
    'cluster.status': {},
    'cluster.ticket': {},
    'cluster.remove': { member: 'none' },
    'cluster.drain': {},
    'cluster.resume': {},
    'logins.login': credentials,
    'logins.identify': { token },
    'logins.follow': { token },
    'logins.list': {},
    'logins.revoke': { user: 'limited' },
    'logins.logout': { token: other },
    'users.requireFullRights': { token, what: 'status' },
    'users.describeMaster': { token },
    'acl.explain': { subject: { kind: 'minion', id: 'web1' }, action: 'signal', resource: 'a/b' },
    'acl.permits': { token, action: 'runner', name: 'jobs.active' },
    'acl.learn': {},
    'acl.replay': { rules: [] },
    'acl.reload': {},
    'acl.forget': {},
    'audit.flush': {},
    'reactions.list': {},
    'reactions.show': { name: 'none' },
    'reactions.runs': {},
    'pillar.show': { minion: 'web1' },
    'pillar.explain': { minion: 'web1' },
    'pillar.diff': { minion: 'web1' },
    'pillar.inputs': {},
  };
}

/** Calls a method and reads its first items, whether or not the call succeeds. */
async function drive(
  { directory }: Pick<RunningApi, 'directory'>,
  name: string,
  { isStream, isLive = false }: Pick<RpcMethod, 'isStream' | 'isLive'>,
  parameters: object,
): Promise<void> {
  const connection = localConnection({ socketPath: directories(directory).socket });
  if (!isStream) {
    await callMethod(connection, name, parameters).catch(() => {});
    return;
  }
  const items = await openMethodStream(connection, name, parameters).catch(() => undefined);
  // These streams end only with the master.
  if (isLive || name === 'logins.follow') await items?.return();
  else await readAll(items ?? []);
}

/** Reads a stream until it ends or the master rejects the call. */
async function readAll(items: Iterable<unknown> | AsyncIterable<unknown>): Promise<void> {
  try {
    for await (const _ of items);
  } catch (error) {
    if (!(error instanceof RemoteError)) throw error;
  }
}

/** Actions of further records that a call causes. */
const entailed: Readonly<Record<string, readonly string[]>> = {
  'keys.create': ['key.accepted'],
  'logins.revoke': ['token.end'],
};

async function actionsDuring(running: RunningApi, work: () => Promise<void>): Promise<string[]> {
  const before = (await auditRecords(running)).length;
  await work();
  const records = (await auditRecords(running)).slice(before);
  return records.map(({ action }) => action);
}

test('each method writes the record that its row declares, and reading methods write none', async (t) => {
  const running = await startApi(t, {
    readConfig: async () => resolveMasterConfig(directories(running.directory)),
  });
  const tokenOf = async (): Promise<string> => {
    const form = { username: 'admin', password, eauth: 'sharedsecret' };
    return (await running.master.logins.login(form)).token;
  };
  const target = path.join(running.directory, 'backup');
  const given = parametersOf(await tokenOf(), await tokenOf(), target);
  for (const [name, row] of coreMethods()) {
    const parameters = given[name];
    if (parameters === undefined) {
      t.fail(`${name}: not called here`);
      continue;
    }
    const actions = await actionsDuring(running, () => drive(running, name, row, parameters));
    const own = actions.filter((action) => entailed[name]?.includes(action) !== true);
    const expected = row.audit === undefined ? [] : [row.audit.action];
    t.deepEqual([...new Set(own)], expected, name);
    // A batch first publishes a ping, which has its own record.
    if (name !== 'jobs.batch') t.is(own.length, expected.length, `${name}: once`);
  }
});

test('a call in the process is recorded once, under the user that it names', async (t) => {
  const running = await startApi(t);
  const by = { who: { kind: 'user', name: 'fred', eauth: 'ldap' }, rule: 'operators' } as const;
  const api: InProcessApi = running.master;
  await api.keys.accept({ match: 'nobody*' }, by);
  await api.acl.forget(by);
  const records = await auditRecords(running, { who: 'fred' });
  t.deepEqual(
    records.map(({ action, who, rule, outcome }) => ({ action, who, rule, outcome })),
    ['key.accept', 'policy.forget'].map((action) => ({ action, ...by, outcome: 'done' })),
  );
});

/** Parameters for methods of the bridge. The rows of these methods declare the audit records. */
const bridgeCalls: Readonly<Record<string, object>> = {
  'data.add': { registration: { name: 'shop', roles: {} } },
  'data.remove': { name: 'shop' },
  'handles.add': { registration: { alias: 'ready', minions: ['web1'], signal: { endpoint: 'x' } } },
  'handles.remove': { alias: 'ready' },
  'outbox.retry': { id: 'none' },
  'outbox.drop': { id: 'none' },
  'stacks.add': { registration: { name: 'demo' } },
  'stacks.remove': { name: 'demo' },
};

/**
 * Methods of the bridge, with the actions in their audit records. Other code writes these records.
 */
const writtenInside: Readonly<Record<string, string>> = {
  run: 'job.publish',
  runPlan: 'plan.run',
  cancelPlan: 'plan.end',
  'enroll.create': 'enroll.created',
  'enroll.import': 'enroll.accepted',
  'enroll.retire': 'enroll.retired',
};

async function startBridge(t: ExecutionContext): Promise<RunningApi & { rows: RpcTable }> {
  const bridge = createBridge({ extensions: { 'data-spaces': true } });
  const running = await startApi(t, { minions: [], extensions: [bridge] });
  const { bridge: rows } = bridge.http.methods();
  if (rows === undefined || isRpcMethod(rows)) throw new TypeError('the bridge has no methods');
  return { ...running, rows };
}

function namedRows(table: RpcTable, prefix = ''): readonly (readonly [string, RpcMethod])[] {
  return Object.entries(table).flatMap(([name, entry]) =>
    isRpcMethod(entry)
      ? [[`${prefix}${name}`, entry] as const]
      : namedRows(entry, `${prefix}${name}.`),
  );
}

test('each method of the bridge writes the record that its row declares', async (t) => {
  const running = await startBridge(t);
  for (const [name, row] of namedRows(running.rows)) {
    const { audit } = row;
    if (audit === undefined || 'writtenBy' in audit) {
      t.is(audit?.action, writtenInside[name], name);
      continue;
    }
    const parameters = bridgeCalls[name];
    t.truthy(parameters, `${name}: not called here`);
    const actions = await actionsDuring(running, () =>
      drive(running, `bridge.${name}`, row, parameters ?? {}),
    );
    t.deepEqual(actions, [audit.action], name);
  }
});
