/**
 * The audit log contains every appended record, and verification detects changes [THREATS B-07].
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { type MasterOptions, resolveMasterConfig } from '#config';
import {
  AuditBursts,
  type AuditEntry,
  type AuditFilter,
  type AuditRecord,
  type InProcessApi,
  readAuditLog,
  verifyAuditLog,
  verifyCopiedLogs,
} from '#master';
import { named } from '#master/audit/audit-record.ts';
import { AuditWitness } from '#master/audit/witness.ts';
import { createOwnStore } from '#master/context/own-store.ts';
import { createMemoryStore } from '#store';
import { auditRecords } from '../../helpers/audit-records.ts';
import { until } from '../../helpers/deadline.ts';
import { tries } from '../../helpers/effort.ts';
import { testWhere } from '../../helpers/needs.ts';
import { canMount, mountSmallDisk } from '../../helpers/small-disk.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';
import { keys } from '../../helpers/vectors.ts';
import { entry, type TestLog, testLog } from './helpers.ts';

const endless = fileURLToPath(new URL('./endless-audit.ts', import.meta.url));
const onSmallDisk = testWhere(canMount, 'root, who may mount a tmpfs');

async function written(t: ExecutionContext, count: number): Promise<TestLog & { file: string }> {
  const log = testLog(t);
  const audit = await log.open();
  for (let index = 0; index < count; index += 1) audit.append(entry(`tag/${index}`));
  await audit.close();
  const [file = ''] = await log.files();
  return { ...log, file };
}

function changeLines(file: string, change: (lines: string[]) => string[]): void {
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  writeFileSync(
    file,
    change(lines)
      .map((line) => `${line}\n`)
      .join(''),
  );
}

async function kinds(log: TestLog): Promise<string[]> {
  return (await log.verify()).problems.map(({ kind }) => kind);
}

test('appended entries are in the log in order, and only its own user can read it', async (t) => {
  const log = await written(t, 3);
  const report = await log.verify();
  t.like(report, { records: 3, first: 1, last: 3, problems: [], isUnfinished: false });
  const tags = (await log.lines()).map((line) => JSON.parse(line).what);
  t.deepEqual(tags, ['tag/0', 'tag/1', 'tag/2']);
  t.is(statSync(log.file).mode & 0o777, 0o600);
});

test('the log has one line for each record, unchanged, whatever texts records contain', async (t) => {
  const text = fc.string({ unit: 'binary', maxLength: 600 });
  await fc.assert(
    fc.asyncProperty(fc.array(text, { maxLength: 8 }), async (texts) => {
      const log = testLog(t);
      const audit = await log.open();
      for (const what of texts) audit.append({ ...entry(what), detail: what });
      await audit.close();
      t.is((await log.lines()).length, texts.length);
      t.deepEqual((await log.verify()).problems, []);
    }),
    tries(20),
  );
});

test('a changed byte is found at any position', async (t) => {
  const log = await written(t, 4);
  const original = readFileSync(log.file);
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: original.length - 1 }),
      fc.integer({ min: 1, max: 255 }),
      async (place, change) => {
        const bytes = Buffer.from(original);
        bytes[place] = (bytes[place] ?? 0) ^ change;
        writeFileSync(log.file, bytes);
        t.true((await log.verify()).problems.length > 0);
      },
    ),
    tries(60),
  );
});

test('removed and exchanged records are detected at any position', async (t) => {
  for (const [what, change, expected] of [
    ['the first', (lines: string[]) => lines.slice(1), 'begin-missing'],
    ['one between', (lines: string[]) => lines.toSpliced(1, 1), 'gap'],
    ['the last', (lines: string[]) => lines.slice(0, -1), 'end-missing'],
    ['all', () => [], 'end-missing'],
    ['two exchanged', ([a = '', b = '', ...c]: string[]) => [b, a, ...c], 'gap'],
  ] as const) {
    const log = await written(t, 4);
    changeLines(log.file, change);
    t.true((await kinds(log)).includes(expected), what);
  }
});

test('a record written again with its own hash breaks the chain', async (t) => {
  const log = await written(t, 3);
  const other = testLog(t);
  const audit = await other.open();
  audit.append(entry('tag/0'));
  audit.append(entry('forged'));
  await audit.close();
  const [, forged = ''] = await other.lines();
  changeLines(log.file, ([first = '', , last = '']) => [first, forged, last]);
  t.deepEqual(await kinds(log), ['broken-chain']);
});

interface MemberLogs {
  /** Directory with the log of each member, by name. */
  readonly directory: string;
  readonly a: TestLog;
  readonly b: TestLog;
}

/** Creates three records of member a. Member b has recorded the last one. */
async function notedLogs(t: ExecutionContext): Promise<MemberLogs> {
  const directory = temporaryDirectory(t);
  const store = createMemoryStore();
  const [a, b] = ['a', 'b'].map((name) => {
    mkdirSync(path.join(directory, name), { mode: 0o700 });
    return testLog(t, path.join(directory, name), createOwnStore(store, name));
  });
  if (a === undefined || b === undefined) throw new Error('no logs');
  await write(a, ['one', 'two', 'three']);
  const audit = await b.open();
  const status = () => ({ members: [{ name: 'a' }, { name: 'b' }] });
  const witness = new AuditWitness({ audit, cluster: { member: 'b', status }, store, id: 'm' });
  t.teardown(() => witness.close());
  for (let times = 0; times < 2; times += 1) await witness.note();
  await audit.close();
  return { directory, a, b };
}

async function write(log: TestLog, texts: readonly string[]): Promise<void> {
  const audit = await log.open();
  for (const text of texts) audit.append(entry(text));
  await audit.close();
}

async function problemsOf(directory: string): Promise<string[]> {
  const { members } = await verifyCopiedLogs(directory);
  return members.flatMap(({ member, problems }) => problems.map(({ kind }) => `${member} ${kind}`));
}

test('members note the positions of the logs of others once, and the logs are verified together', async (t) => {
  const { directory, a, b } = await notedLogs(t);
  t.deepEqual(await problemsOf(directory), []);
  t.is((await b.lines()).length, 1);
  await write(a, ['four']);
  t.deepEqual(await problemsOf(directory), []);
});

test('a rewritten log is not the one that another member has noted', async (t) => {
  const { directory, a } = await notedLogs(t);
  for (const file of await a.files()) rmSync(file);
  await write(testLog(t, a.directory), ['one', 'two', 'other', 'four']);
  t.deepEqual(await problemsOf(directory), ['a other-history']);
});

test('a truncated log ends before the record that another member has noted', async (t) => {
  const { directory, a } = await notedLogs(t);
  for (const file of await a.files()) rmSync(file);
  await write(testLog(t, a.directory), ['one']);
  t.deepEqual(await problemsOf(directory), ['a end-missing']);
});

test('an incomplete last line is moved aside after a crash, and the log continues with a record of it', async (t) => {
  const log = await written(t, 2);
  appendFileSync(log.file, '{"sequence":3,"time":"20');
  t.true((await log.verify()).isUnfinished);
  const audit = await log.open();
  audit.append(entry('after'));
  await audit.close();
  t.like(await log.verify(), { records: 4, last: 4, problems: [], isUnfinished: false });
  const actions = (await log.lines()).map((line) => JSON.parse(line).action);
  t.deepEqual(actions, ['signal', 'signal', 'audit.torn', 'signal']);
  t.is(readFileSync(path.join(log.directory, 'torn-3.part'), 'utf8'), '{"sequence":3,"time":"20');
});

for (const [what, damage] of [
  ['cut off', (lines: string[]) => lines.slice(0, 2)],
  ['altered', (lines: string[]) => lines.map((line) => line.replace('tag/4', 'tag/x'))],
  ['removed', undefined],
] as const) {
  test(`an end that was ${what} while no master ran remains detectable`, async (t) => {
    const log = await written(t, 5);
    if (damage === undefined) rmSync(log.file);
    else changeLines(log.file, damage);
    const audit = await log.open();
    audit.append(entry('after'));
    await audit.close();
    const report = await log.verify();
    t.is(report.last, 7);
    if (what !== 'removed') t.true(report.problems.length > 0);
    else t.deepEqual(report.first, 6);
    t.true((await log.lines()).some((line) => JSON.parse(line).action === 'audit.mismatch'));
  });
}

test('a full file is followed by the next one, and the number of files is limited', async (t) => {
  const log = testLog(t);
  const audit = await log.open({ fileBytes: 4096, keepFiles: 3 });
  for (let index = 0; index < 100; index += 1) {
    audit.append(entry(`tag/${index}`));
    await audit.flush();
  }
  await audit.close();
  const report = await log.verify();
  t.is(report.files.length, 3);
  t.is(report.last, 100);
  t.deepEqual(report.problems, []);
  for (const file of report.files) t.true(statSync(file).size <= 4096);
  rmSync(report.files[0] ?? '');
  t.deepEqual(await kinds(log), ['begin-missing']);
});

test('digests distinguish arguments without revealing them', async (t) => {
  const audit = await testLog(t).open();
  const other = await testLog(t).open({ digestKey: new Uint8Array(32).fill(1) });
  t.is(await audit.digest(['hunter2']), await audit.digest(['hunter2']));
  t.not(await audit.digest(['hunter2']), await audit.digest(['hunter3']));
  t.not(await audit.digest(['hunter2']), await other.digest(['hunter2']));
  const odd = [new Uint8Array(3), 1n, new Map([['a', 1]]), undefined];
  t.regex(await audit.digest(odd), /^[0-9a-f]{32}$/);
  // Long logs are verified in steps.
  const long = (end: unknown): unknown[] => [Array(5000).fill({ a: ['x', ...odd] }), end];
  t.is(await audit.digest(long('a')), await audit.digest(long('a')));
  t.not(await audit.digest(long('a')), await audit.digest(long('b')));
  t.not(await audit.digest(long(1)), await audit.digest(long(1n)));
});

test('the size of a record is limited for any subject', async (t) => {
  const log = testLog(t);
  const audit = await log.open();
  const ids = Array.from({ length: 20_000 }, (_, index) => `minion-${index}`);
  const long = 'x'.repeat(1_000_000);
  const who = { kind: 'user', name: long, eauth: long } as const;
  const texts = { what: long, target: long, rule: long, jid: long, detail: long };
  audit.append({ who, action: 'job.publish', ...texts, ...named(ids), outcome: 'done' });
  await audit.close();
  const [line = ''] = await log.lines();
  t.true(line.length < 8_000);
  const { on, onCount } = JSON.parse(line);
  t.deepEqual([on.length, onCount], [100, 20_000]);
});

test('records survive a killed process, and an incomplete record is not a problem', async (t) => {
  const directory = temporaryDirectory(t);
  const child = fork(endless, [directory], { stdio: 'ignore' });
  let flushed = 0;
  child.on('message', (sequence) => {
    flushed = Number(sequence);
    if (flushed >= 2000) child.kill('SIGKILL');
  });
  await once(child, 'close');
  const log = testLog(t, directory);
  await (await log.open()).close();
  const report = await log.verify();
  t.true(report.last >= flushed && flushed >= 2000);
  t.deepEqual(report.problems, []);
});

onSmallDisk(
  'on a full disk, records that fit in memory are not lost, and the log notes the time',
  async (t) => {
    const disk = mountSmallDisk(t, 1);
    const log = testLog(t, path.join(disk.directory, 'audit'));
    const notified: boolean[] = [];
    const audit = await log.open({ onFull: (isFull) => notified.push(isFull) });
    audit.append(entry('before'));
    await audit.flush();
    disk.fill();
    for (let index = 0; index < 200; index += 1) audit.append(entry(`full/${index}`));
    await until('the disk to be found full', () => audit.isFull);
    disk.free();
    await until('room', () => !audit.isFull);
    await audit.close();
    t.deepEqual(notified, [true, false]);
    t.like(await log.verify(), { records: 201, problems: [] });
    t.deepEqual(
      (await readdir(log.directory)).filter((name) => !name.startsWith('audit-')),
      [],
    );
  },
);

// The log grows by a fixed amount, however often the minion is refused.

const denied = { effect: 'deny', rule: 'default-deny', reason: '' } as const;
const allowed = { effect: 'allow', rule: 'deploys', reason: '' } as const;

function start(): {
  readonly entries: AuditEntry[];
  readonly clock: { now: number };
  readonly ruled: AuditBursts;
} {
  const entries: AuditEntry[] = [];
  const clock = { now: 0 };
  const audit = { append: (entry: AuditEntry) => void entries.push(entry), digest: async () => '' };
  return { entries, clock, ruled: new AuditBursts({ audit, now: () => clock.now }) };
}

function signal(minion: string, what: string): Parameters<AuditBursts['noteDecision']>[0] {
  return { who: { kind: 'minion', name: minion }, action: 'signal', what };
}

test('the first record of a kind is written at once, and its repetitions once a minute', (t) => {
  const { entries, clock, ruled } = start();
  for (let index = 0; index < 500; index += 1) ruled.noteDecision(signal('web1', 'my/tag'), denied);
  ruled.noteDecision(signal('web1', 'my/tag'), allowed);
  t.is(entries.length, 2);
  clock.now = 60_000;
  ruled.noteDecision(signal('web1', 'my/tag'), denied);
  t.like(entries[2], { what: 'my/tag', outcome: 'denied', count: 499 });
  t.is(entries.length, 4);
});

test('a flood of tags causes some records a minute, with its size', (t) => {
  const { entries, clock, ruled } = start();
  for (let second = 0; second < 60; second += 1) {
    clock.now = second * 1000;
    for (let index = 0; index < 1000; index += 1) {
      ruled.noteDecision(signal('bad', `${second}/${index}`), denied);
    }
  }
  t.true(entries.length < 30);
  ruled.noteDecision(signal('web1', 'my/tag'), denied);
  t.is(entries.at(-1)?.who.name, 'web1');
  ruled.flush();
  const { count = 0 } = entries.at(-1) ?? {};
  t.is(count + entries.length - 2, 60_000);
});

test('a flood from many minions is limited as well', (t) => {
  const { entries, ruled } = start();
  for (let index = 0; index < 10_000; index += 1)
    ruled.noteDecision(signal(`m${index}`, 'x'), denied);
  ruled.flush();
  t.is(entries.length, 201);
});

// Records that a running master writes to its audit log.

interface Audited extends VectorMaster {
  records(filter?: AuditFilter): Promise<AuditRecord[]>;
}

async function startAudited(
  t: ExecutionContext,
  config: Partial<MasterOptions> = {},
): Promise<Audited> {
  const running = await startVectorMaster(t, { config });
  return { ...running, records: (filter) => auditRecords(running, filter) };
}

test('a job is audited with its user, function, target and jid, and without its arguments', async (t) => {
  const running = await startAudited(t);
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

test('a fired event is audited with its user and tag', async (t) => {
  const running = await startAudited(t);
  await running.master.events.fire('site/backup/done', { password: 'hunter2' });
  await running.master.events.fire('site/backup/done', {});
  const who = { kind: 'service', name: 'backups' } as const;
  const api: InProcessApi = running.master;
  await api.events.fire('site/backup/done', {}, { who, rule: 'of-backups' });
  const [first, second, ...more] = await running.records({ action: 'fire' });
  const same = { action: 'fire', what: 'site/backup/done', outcome: 'permitted' } as const;
  t.like(first, { ...same, who: { kind: 'local', name: '' }, rule: 'local-interface' });
  t.like(second, { ...same, who, rule: 'of-backups' });
  t.deepEqual(more, []);
});

test('runners, wheel functions and keys are audited with their results', async (t) => {
  const running = await startAudited(t);
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
  const running = await startAudited(t, { acl: { signals: [{ tag: 'my/*', minions: '*' }] } });
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

test('a reload is audited, even if it is refused', async (t) => {
  const running = await startAudited(t);
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

test('a running master confirms the end of its log', async (t) => {
  const running = await startAudited(t);
  const head = await running.master.audit.flush();
  const config = { stateDir: directories(running.directory).stateDir ?? '' };
  t.deepEqual((await verifyAuditLog(config, head)).problems, []);
  const later = { sequence: 9, hash: '0'.repeat(64) };
  t.is((await verifyAuditLog(config, later)).problems[0]?.kind, 'end-missing');
});

test('with audit off nothing is written', async (t) => {
  const running = await startAudited(t, { audit: { enabled: false } });
  t.is(await running.master.audit.flush(), null);
  t.false(readdirSync(path.join(running.directory, 'state')).includes('audit'));
});

test('entries with one key count as one, and the last is in the summary', (t) => {
  const { entries, clock, ruled } = start();
  const who = { kind: 'minion', name: 'web1' } as const;
  for (let version = 1; version <= 1248; version += 1) {
    const entry = { who, action: 'data.put', what: `db/port ${version}`, outcome: 'done' } as const;
    ruled.note(entry, 'web1', 'web1 db/port');
  }
  t.is(entries.length, 1);
  clock.now = 60_000;
  ruled.flushIfDue();
  t.like(entries[1], { what: 'db/port 1248', count: 1247 });
});
