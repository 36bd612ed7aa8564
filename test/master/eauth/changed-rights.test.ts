/** Rights that change while a stream or a job of their user is in progress. */

import test, { type ExecutionContext } from 'ava';
import { type MasterOptions, resolveMasterConfig } from '#config';
import { AuthenticationError, AuthorizationError, type UserApi } from '#master';
import { createMinion } from '#minion-protocol';
import { otherKey } from '../../helpers/connected-minion.ts';
import { startKeystone } from '../../helpers/group-keystone.ts';
import { directories, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';

const denied = { instanceOf: AuthorizationError, code: 'ERR_DENIED' } as const;
const noToken = { instanceOf: AuthenticationError, code: 'ERR_EAUTH_TOKEN' } as const;

interface Running extends VectorMaster {
  readonly fred: UserApi;
  reload(config: Partial<MasterOptions>): Promise<unknown>;
  /**
   * Logs the user in again, so that the master learns the groups of the user. Returns the groups
   * of the first token.
   */
  learnGroups(): Promise<readonly string[]>;
}

/**
 * Starts a master, and logs a user in.
 * @param hasMinion - whether a minion will connect, which needs the clock of the system. Otherwise,
 * the clock of the master stands still
 */
async function startAs(
  t: ExecutionContext,
  eauth: 'keystone' | 'sharedsecret',
  config: Partial<MasterOptions>,
  hasMinion = true,
): Promise<Running> {
  const running = await startVectorMaster(t, {
    keys: [otherKey('m1'), otherKey('m2')],
    config,
    usesSystemClock: hasMinion,
  });
  const { master, directory } = running;
  const credentials = { username: 'fred', password: 'secret', eauth };
  const { token } = await master.logins.login(credentials);
  const reload = (more: Partial<MasterOptions>): Promise<unknown> =>
    master.reload(resolveMasterConfig({ ...directories(directory), ...config, ...more }));
  const learnGroups = async (): Promise<readonly string[]> => {
    await master.logins.login(credentials);
    return (await master.logins.identify(token)).groups;
  };
  return { ...running, fred: master.asUser(token), reload, learnGroups };
}

/** Connects a minion that does not answer the first call of `held` before the test permits it. */
async function connect(t: ExecutionContext, { dial }: VectorMaster, held: string) {
  const asked = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const calls: string[] = [];
  const call = (name: string, value: boolean | string[]) => async (): Promise<typeof value> => {
    calls.push(name);
    if (name !== held) return value;
    asked.resolve();
    await gate.promise;
    return value;
  };
  const minion = createMinion({
    id: 'm1',
    transport: dial('m1'),
    keys: { ...pem('other_minion'), masterPem: undefined, trustMaster: async () => {} },
    functions: {
      'test.ping': call('test.ping', true),
      'test.echo': call('test.echo', true),
      'sys.list_functions': call('sys.list_functions', ['test.echo']),
    },
  });
  t.teardown(() => minion.stop());
  await minion.start();
  return { asked: asked.promise, answer: () => gate.resolve(), calls };
}

async function readAll(updates: AsyncIterable<unknown>): Promise<void> {
  for await (const _update of updates);
}

test('a stream stops sending what only a former group of its user may read', async (t) => {
  const { known, url } = await startKeystone(t);
  const externalAuth = {
    keystone: { 'staff%': ['.*', '@runner', '@wheel'], fred: ['test.echo'] },
  };
  const eauth = { keystoneAuthUrl: url };
  const running = await startAs(t, 'keystone', { externalAuth, eauth }, false);
  const { master, fred } = running;
  const events = await fred.events.subscribe({});
  const stream = events[Symbol.asyncIterator]();
  await master.events.fire('secret/before', {});
  t.is((await stream.next()).value?.tag, 'secret/before');
  known.groups = [];
  t.deepEqual(await running.learnGroups(), []);
  await master.events.fire('secret/after', {});
  const { jid } = await fred.jobs.publish({ tgt: 'm1', fun: 'test.echo' });
  t.is((await stream.next()).value?.tag, `salt/job/${jid}/new`);
  await stream.return?.();
});

test('a batch stops if its user leaves the group that has the right', async (t) => {
  const { known, url } = await startKeystone(t);
  const externalAuth = { keystone: { 'staff%': ['test.echo'], 'other%': ['test.arg'] } };
  const running = await startAs(t, 'keystone', { externalAuth, eauth: { keystoneAuthUrl: url } });
  const minion = await connect(t, running, 'test.ping');
  const job = { tgt: 'm1', fun: 'test.echo', size: 1 };
  const run = readAll(running.fred.jobs.batch(job));
  await minion.asked;
  known.groups = ['other'];
  t.deepEqual(await running.learnGroups(), ['other']);
  minion.answer();
  await t.throwsAsync(run, denied);
  t.deepEqual(minion.calls, ['test.ping']);
});

test('a job on a subset of minions is not published if a reload takes away its right', async (t) => {
  const externalAuth = { sharedsecret: { fred: ['test.echo'] } };
  const eauth = { sharedsecret: 'secret' };
  const running = await startAs(t, 'sharedsecret', { externalAuth, eauth });
  const minion = await connect(t, running, 'sys.list_functions');
  const run = readAll(running.fred.jobs.run({ tgt: 'm1', fun: 'test.echo', subset: 1 }));
  await minion.asked;
  await running.reload({ externalAuth: { sharedsecret: { fred: ['test.arg'] } } });
  minion.answer();
  await t.throwsAsync(run, denied);
  t.deepEqual(minion.calls, ['sys.list_functions']);
});

test('a batch publishes nothing after the token of its user was revoked', async (t) => {
  const externalAuth = { sharedsecret: { fred: ['.*'] } };
  const eauth = { sharedsecret: 'secret' };
  const running = await startAs(t, 'sharedsecret', { externalAuth, eauth });
  const { master, fred } = running;
  await connect(t, running, 'none');
  const returns = await master.events.subscribe({ match: 'salt/job/*/ret/m1' });
  // The minion `m2` never answers, so the batch does not begin.
  const job = { tgt: '*', fun: 'test.echo', size: 1, timeoutSeconds: 3600 };
  const run = readAll(fred.jobs.batch(job));
  await returns[Symbol.asyncIterator]().next();
  const events = await running.eventsDuring(async () => {
    await master.logins.revoke({ user: 'fred' });
    await t.throwsAsync(run, noToken);
  });
  t.deepEqual(
    events.filter(({ tag }) => /^salt\/job\/\d+\/new$/.test(tag)),
    [],
  );
});
