/** Several real processes share a master. They are killed and suspended. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { freePort } from '../../bench/free-port.ts';
import { within } from '../helpers/deadline.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import {
  Group,
  type GroupOptions,
  type Member,
  type MemberError,
  type MemberMessage,
} from './members.ts';

async function start(
  t: ExecutionContext,
  processes: number,
  options: GroupOptions,
  prepare: (directory: string) => void = () => {},
): Promise<Group> {
  t.timeout(240_000);
  const group = await Group.prepare(temporaryDirectory(t), options);
  prepare(group.directory);
  t.teardown(() => group.end());
  for (let count = 0; count < processes; count += 1) await group.addMember();
  await group.addMinions();
  return group;
}

function holderOf(group: Group): Member {
  const { holder } = group;
  if (holder === undefined) throw new Error('no process holds the master');
  return holder;
}

interface Update {
  readonly type: string;
  readonly jid: string;
  readonly minion?: string;
}

test.serial(
  'one of several processes holds the master, and all of them have its interface',
  async (t) => {
    const group = await start(t, 3, { minions: 2 });
    t.deepEqual(group.members.map(({ role }) => role).sort(), ['holder', 'sibling', 'sibling']);
    const { pid } = holderOf(group);
    for (const member of group.members) {
      const status = (await member.call('status')) as { readonly pid: number };
      t.is(status.pid, pid);
      const updates = (await member.call('jobs.run', { tgt: '*', fun: 'test.ping' })) as Update[];
      t.deepEqual(
        updates.map(({ type }) => type),
        ['published', 'return', 'return', 'finished'],
      );
      await t.throwsAsync(member.call('jobs.show', '20200101000000000000'), {
        code: 'ERR_JOB_UNKNOWN',
      });
    }
  },
);

test.serial(
  'a process with another option is refused, and the error names the option and no value',
  async (t) => {
    const group = await start(t, 1, { minions: 0 });
    await group.configure('other', { worker_threads: 5, timeout: 7_777_777 });
    const error = await t.throwsAsync(group.addMember('other'), { code: 'ERR_OPTIONS_DIFFER' });
    t.regex(error?.message ?? '', /: (?:.*, )?timeout/);
    // No process id has this many digits.
    t.notRegex(error?.message ?? '', /7777777/);
  },
);

test.serial(
  'when the holder is killed another process takes over, and what was acknowledged is there',
  async (t) => {
    const group = await start(t, 3, { minions: 3 });
    const published: Extract<MemberMessage, { type: 'published' }>[] = [];
    const refused: MemberMessage[] = [];
    const quiet: Promise<unknown>[] = [];
    const listen = (member: Member): void => {
      quiet.push(
        new Promise((resolve) => {
          member.on((message) => {
            if (message.type === 'published') published.push(message);
            if (message.type === 'refused') refused.push(message);
            if (message.type === 'quiet') resolve(undefined);
          });
        }),
      );
      member.send({ type: 'publish', perSecond: 10, minions: group.ids });
    };
    for (const member of group.siblings) listen(member);
    const former = holderOf(group);
    await within(
      'load',
      untilSome(() => published.length > 10),
    );
    const killedAt = Date.now();
    await former.kill();
    await group.nextHolder(former, 30_000);
    const takenAt = Date.now();
    t.log(`taken over after ${takenAt - killedAt} ms`);
    await within(
      'load',
      untilSome(() => published.some(({ from }) => from > takenAt)),
    );
    for (const member of group.members) if (!member.hasEnded) member.send({ type: 'rest' });
    await within('the calls to end', Promise.all(quiet));
    t.deepEqual(refused, []);
    const next = holderOf(group);
    for (const { jid } of published) {
      const report = (await next.call('jobs.show', jid)) as { readonly jid: string };
      t.is(report.jid, jid);
    }
    t.deepEqual(
      [...group.arrivals].filter(([, count]) => count > 1),
      [],
    );
    t.deepEqual(group.outdated, []);
    const slowest = Math.max(...published.map(({ from, to }) => to - from));
    t.log(`${published.length} jobs, the slowest call ${slowest} ms`);
  },
);

test.serial(
  'a run continues when the holder is killed or leaves, and reports each return once',
  async (t) => {
    const jobMs = (fun: string): number => (fun === 'test.sleep' ? 6000 : 0);
    const group = await start(t, 3, { minions: 2, jobMs });
    for (const end of ['kill', 'close'] as const) {
      const former = holderOf(group);
      const [sibling] = group.siblings;
      if (sibling === undefined) throw new Error('no sibling');
      const begun = new Promise<void>((resolve) => {
        sibling.on((message) => {
          if (message.type === 'item') resolve();
        });
      });
      const run = sibling.call('jobs.run', { tgt: '*', fun: 'test.sleep', timeoutSeconds: 30 });
      await begun;
      await former[end]();
      const updates = (await run) as Update[];
      t.deepEqual(
        updates.map(({ type, minion }) => [type, minion].join(' ').trim()).sort(),
        ['finished', 'published', ...group.ids.map((id) => `return ${id}`)],
        end,
      );
      await group.nextHolder(former, 30_000);
      await group.addMember();
    }
    t.deepEqual(
      [...group.arrivals].filter(([, count]) => count > 1),
      [],
    );
  },
);

test.serial('a holder that is stopped is ended by another process, which takes over', async (t) => {
  const group = await start(t, 2, { minions: 1, takeoverAfter: 3 });
  const former = holderOf(group);
  const [sibling] = group.siblings;
  if (sibling === undefined) throw new Error('no sibling');
  former.stop();
  const call = sibling.call('jobs.publish', { tgt: '*', fun: 'test.ping' });
  const next = await group.nextHolder(former, 30_000);
  t.true(former.hasEnded);
  t.is(next, sibling);
  const { jid } = (await call) as { readonly jid: string };
  t.like(await next.call('jobs.show', jid), { jid });
});

test.serial(
  'a process that was replaced writes nothing more and holds the master no longer',
  async (t) => {
    const own = { holder_wait: 5 };
    const group = await start(t, 1, { minions: 1, takeoverAfter: 3, own });
    const former = holderOf(group);
    const roles: string[] = [];
    former.on((message) => {
      if (message.type === 'role') roles.push(message.role);
    });
    // The lock file is replaced, as if someone had removed it, so the kernel no longer excludes
    // other processes.
    const store = path.join(group.directory, 'state', 'store');
    for (const name of readdirSync(store)) {
      if (name.startsWith('holder')) rmSync(path.join(store, name));
    }
    const ports = { ret_port: await freePort(), publish_port: await freePort() };
    await group.configure('other', ports, { socket: '/run/other.sock' });
    const next = await group.addMember('other');
    t.is(next.role, 'holder');
    const refused = await t.throwsAsync<MemberError>(
      former.call('jobs.publish', { tgt: '*', fun: 'test.ping' }),
    );
    // The process notices that it was replaced before the call, or by the call.
    t.true(['ERR_NO_HOLDER', 'ERR_OUTCOME_UNKNOWN'].includes(refused?.code ?? ''));
    t.deepEqual(roles, ['sibling']);
    t.deepEqual(await next.call('jobs.list'), []);
    t.is(group.arrivals.size, 0);
  },
);

test.serial(
  'if a hanging holder cannot be ended, no process takes over, and calls name the remedy',
  async (t) => {
    const group = await start(t, 2, { minions: 1, takeoverAfter: 2 });
    const former = holderOf(group);
    const [sibling] = group.siblings;
    if (sibling === undefined) throw new Error('no sibling');
    // A holder in another container looks like this.
    const file = path.join(group.directory, 'state', 'store', 'holder.json');
    const identity = JSON.parse(readFileSync(file, 'utf8'));
    writeFileSync(file, JSON.stringify({ ...identity, pidNamespace: 'pid:[1]' }));
    former.stop();
    await t.throwsAsync(sibling.call('status'), {
      code: 'ERR_HOLDER_HUNG',
      message: /another PID namespace.*holder\.json/,
    });
    t.is(sibling.role, 'sibling');
    former.goOn();
    await within(
      'the holder to answer',
      untilResolved(() => sibling.call('status')),
    );
    t.is(former.role, 'holder');
  },
);

test.serial(
  'a run of the bridge continues at the next holder, and publishes its job once',
  async (t) => {
    const jobMs = (fun: string): number => (fun === 'site.held' ? 5000 : 0);
    const own = { bridge: { catalog: ['../commands.yaml'] } };
    const group = await start(t, 2, { minions: 1, jobMs, own }, (directory) =>
      writeFileSync(path.join(directory, 'commands.yaml'), catalog),
    );
    const former = holderOf(group);
    const [sibling] = group.siblings;
    if (sibling === undefined) throw new Error('no sibling');
    const hasArrived = untilSome(() => group.arrivals.size > 0);
    const run = sibling.streamExtension('bridge', 'run', { command: 'site.held', tgt: '*' });
    await within('the job', hasArrived);
    await former.kill();
    const updates = (await run) as (Update & { readonly outcome?: { readonly status: string } })[];
    t.deepEqual(
      updates.map(({ type }) => type),
      ['begun', 'published', 'result', 'outcome'],
    );
    t.is(updates.at(-1)?.outcome?.status, 'succeeded');
    t.deepEqual([...group.arrivals.values()], [1]);
  },
);

const catalog = `
site.held: { description: x, function: site.held, reviewed: made for this test alone }
`;

async function untilResolved(call: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await call();
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function untilSome(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 20));
}
