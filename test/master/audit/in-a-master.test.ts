/** What a running master writes into its audit log. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import {
  type AuditFilter,
  type AuditRecord,
  type MasterOptions,
  readAuditLog,
  resolveMasterConfig,
  verifyAuditLog,
} from '../../../master/index.ts';
import { auditRecords } from '../../helpers/audit-records.ts';
import { directories, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';
import { keys } from '../../helpers/vectors.ts';

interface Audited extends VectorMaster {
  records(filter?: AuditFilter): Promise<AuditRecord[]>;
}

async function start(t: ExecutionContext, config: Partial<MasterOptions> = {}): Promise<Audited> {
  const running = await startVectorMaster(t, { config });
  return { ...running, records: (filter) => auditRecords(running, filter) };
}

test('a job is audited with who, what, whom and its jid, and without its arguments', async (t) => {
  const running = await start(t);
  const secret = 'hunter2-in-the-clear';
  const { jid } = await running.master.jobs.publish({
    tgt: '*',
    fun: 'user.set_password',
    arg: [secret],
    user: 'fred',
  });
  const [record] = await running.records({ jid });
  t.like(record, {
    who: { kind: 'local', name: 'fred' },
    action: 'job.publish',
    what: 'user.set_password',
    target: 'glob *',
    on: [keys.minionId],
    rule: 'local-interface',
    outcome: 'done',
  });
  const directory = path.join(running.directory, 'state', 'audit');
  for (const file of readdirSync(directory)) {
    t.false(readFileSync(path.join(directory, file), 'utf8').includes(secret));
  }
});

test('an event that somebody fires is audited with who did and its tag', async (t) => {
  const running = await start(t);
  await running.master.events.fire('site/backup/done', { password: 'hunter2' });
  await running.master.events.fire('site/backup/done', {});
  const who = { kind: 'service', name: 'backups' } as const;
  await running.master.events.fire('site/backup/done', {}, { who, rule: 'of-backups' });
  const [first, second, ...more] = await running.records({ action: 'fire' });
  const same = { action: 'fire', what: 'site/backup/done', outcome: 'permitted' } as const;
  t.like(first, { ...same, who: { kind: 'local', name: '' }, rule: 'local-interface' });
  t.like(second, { ...same, who, rule: 'of-backups' });
  t.deepEqual(more, []);
});

test('runners, wheel functions and keys are audited with what came of them', async (t) => {
  const running = await start(t);
  await running.master.runners.run({ fun: 'jobs.list_jobs' });
  await running.master.wheel.run({ fun: 'key.finger', arg: [keys.minionId] });
  await t.throwsAsync(running.master.keys.accept({ match: '*', fingerprint: '00' }));
  await running.master.keys.delete({ match: keys.minionId });
  const all = (await running.records()).map(
    ({ action, what, outcome }) => `${action} ${what} ${outcome}`,
  );
  t.deepEqual(all, [
    'master.start undefined done',
    'runner.run runner.jobs.list_jobs done',
    'wheel.run wheel.key.finger done',
    'key.accept * failed',
    'key.revoked undefined done',
    `key.delete ${keys.minionId} done`,
  ]);
  t.is((await running.records({ action: 'key', minion: keys.minionId })).length, 2);
});

test('a refused signal and a permitted one are audited, a lifecycle event is not', async (t) => {
  const running = await start(t, { acl: { signals: [{ tag: 'my/*', minions: '*' }] } });
  const event = recorded('minion_event', 'start event v3');
  for (const tag of ['my/tag', 'other/tag', 'other/tag', `salt/minion/${keys.minionId}/start`]) {
    await running.ask(altered(event, { load: { tag, nonce: freshNonce() } }));
  }
  const signals = await running.records({ action: 'signal' });
  t.deepEqual(
    signals.map(({ what, outcome, rule }) => [what, outcome, rule]),
    [
      ['my/tag', 'permitted', 'signals: my/*'],
      ['other/tag', 'denied', 'default-deny'],
    ],
  );
  await running.master.close();
  const config = { stateDir: directories(running.directory).stateDir ?? '' };
  const counted: unknown[] = [];
  for await (const { count, action } of readAuditLog(config)) counted.push(count ?? action);
  t.deepEqual(counted.slice(-2), [1, 'master.stop']);
});

test('a reload is audited, also one that is refused', async (t) => {
  const running = await start(t);
  const base = directories(running.directory);
  await running.master.reload(resolveMasterConfig({ ...base, autoAccept: true }));
  const rules = [{ name: 'x' }] as never;
  const broken = { ...resolveMasterConfig(base), acl: { ...resolveMasterConfig(base).acl, rules } };
  await t.throwsAsync(running.master.reload(broken));
  const records = await running.records({ action: 'policy' });
  t.deepEqual(
    records.map(({ what, outcome }) => [what, outcome]),
    [
      ['auto_accept', 'done'],
      [undefined, 'failed'],
    ],
  );
});

test('a running master vouches for the end of its log', async (t) => {
  const running = await start(t);
  const head = await running.master.audit.flush();
  const config = { stateDir: directories(running.directory).stateDir ?? '' };
  t.deepEqual((await verifyAuditLog(config, head)).problems, []);
  const later = { sequence: 9, hash: '0'.repeat(64) };
  t.is((await verifyAuditLog(config, later)).problems[0]?.kind, 'end-missing');
});

test('with audit off nothing is written', async (t) => {
  const running = await start(t, { audit: { enabled: false } });
  t.is(await running.master.audit.flush(), null);
  t.false(readdirSync(path.join(running.directory, 'state')).includes('audit'));
});
