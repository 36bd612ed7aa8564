/**
 * All types of targets, with the real command and real minions of all versions in SALT_MINION at
 * one master.
 */
import test from 'ava';
import type { WireMap } from '#minion-protocol';
import { CommandLine } from './command-line.ts';
import { EventLog } from './event-log.ts';
import { Fleet, runJob } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';

const step = steps('SALT_MINION');

/** A target as written, and the minions that it matches. */
interface TargetCase {
  readonly title: string;
  readonly words: (ids: readonly string[]) => readonly string[];
  readonly isMeant: (id: string, index: number, ids: readonly string[]) => boolean;
}

/** Every second minion in the order of ids has a blue pillar, the others a red one. */
const isBlue = (_id: string, index: number): boolean => index % 2 === 0;
const isFirst = (_id: string, index: number): boolean => index === 0;
const isOld = (id: string): boolean => /-300[45]/.test(id);
const all = (): boolean => true;

const cases: readonly TargetCase[] = [
  { title: 'a glob', words: () => ['salt-3006*'], isMeant: (id) => id.startsWith('salt-3006') },
  { title: 'an id', words: ([id = '']) => [id], isMeant: isFirst },
  { title: 'a regular expression', words: () => ['-E', 'salt-300(4|5).*'], isMeant: isOld },
  {
    title: 'a list',
    words: ([first = '', ...others]) => ['-L', [first, others.at(-1) ?? first].join()],
    isMeant: (_id, index, ids) => index === 0 || index === ids.length - 1,
  },
  {
    title: 'a grain',
    words: () => ['-G', 'saltversion:3006*'],
    isMeant: (id) => id.startsWith('salt-3006'),
  },
  {
    title: 'a regular expression on a grain',
    words: () => ['-P', 'saltversion:^300[45]'],
    isMeant: isOld,
  },
  {
    title: 'a nested grain with a delimiter',
    words: () => ['-G', '--delimiter', '|', 'place|room|shelf'],
    isMeant: all,
  },
  { title: 'pillar', words: () => ['-I', 'shade:colour:blue'], isMeant: isBlue },
  {
    title: 'a regular expression on pillar',
    words: () => ['-J', 'shade:colour:^(b|g)'],
    isMeant: isBlue,
  },
  { title: 'a subnet', words: () => ['-S', '127.0.0.0/8'], isMeant: all },
  { title: 'a nodegroup', words: () => ['-N', 'blues'], isMeant: isBlue },
  {
    title: 'a nodegroup of nodegroups',
    words: () => ['-N', 'reds'],
    isMeant: (id, index) => !isBlue(id, index),
  },
  { title: 'G@', words: () => ['-C', 'G@saltversion:300[45]*'], isMeant: isOld },
  { title: 'P@', words: () => ['-C', 'P@saltversion:^300(4|5)'], isMeant: isOld },
  { title: 'I@', words: () => ['-C', 'I@shade:colour:blue'], isMeant: isBlue },
  { title: 'J@', words: () => ['-C', 'J@shade:colour:^bl'], isMeant: isBlue },
  { title: 'E@', words: () => ['-C', 'E@salt-300[45].*'], isMeant: isOld },
  { title: 'L@', words: ([id = '']) => ['-C', `L@${id},nobody`], isMeant: isFirst },
  { title: 'S@', words: () => ['-C', 'S@127.0.0.1'], isMeant: all },
  { title: 'N@', words: () => ['-C', 'N@blues and salt-*'], isMeant: isBlue },
  {
    title: 'and, or, not and parentheses',
    words: ([id = '']) => ['-C', `( E@salt-300[45].* or I@shade:colour:blue ) and not L@${id}`],
    isMeant: (id, index) => index > 0 && (isOld(id) || isBlue(id, index)),
  },
  {
    title: 'not in front of a nodegroup',
    words: () => ['-C', 'G@role:interop and not N@blues'],
    isMeant: (id, index) => !isBlue(id, index),
  },
];

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;
let command: CommandLine;

async function pillarOf({ id }: { readonly id: string }): Promise<WireMap> {
  return { shade: { colour: isBlue(id, fleet.ids.indexOf(id)) ? 'blue' : 'red' } };
}

test.before(async () => {
  if (minionPrograms.length === 0) return;
  home = await MasterHome.create({
    timeout: 60,
    gatherJobTimeout: 20,
    nodegroups: { blues: 'I@shade:colour:blue', reds: 'salt-* and not N@blues' },
  });
  const grains = '{role: interop, place: {room: [shelf, floor]}}';
  fleet = await Fleet.create({ ...home.ports, grains });
  master = await home.startHere(pillarOf);
  command = new CommandLine(home);
  await fleet.enrol(master.api, new EventLog(await master.api.events.subscribe()));
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

for (const { title, words, isMeant } of cases) {
  step(`a target means the minions that it means in Salt (${title})`, async (t) => {
    const { ids } = fleet;
    const meant = ids.filter((id, index) => isMeant(id, index, ids));
    t.deepEqual(await command.ping(...words(ids)), meant);
  });
}

step('a target: the exact value of a pillar', async (t) => {
  const request = { tgt: 'shade:colour:blue', tgtType: 'pillar_exact', fun: 'test.ping' } as const;
  const { returns } = await runJob(master.api, request);
  t.deepEqual([...returns.keys()].sort(), fleet.ids.filter(isBlue));
});

step('a batch of two at a time, and one of half of them, reach every minion', async (t) => {
  t.deepEqual(await command.ping('-b', '2', '*'), fleet.ids);
  t.deepEqual(await command.ping('-b', '50%', '*'), fleet.ids);
});

step('a subset has the requested number of minions with the function', async (t) => {
  const count = Math.min(2, fleet.ids.length);
  const answered = await command.ping('--subset', String(count), '*');
  t.is(answered.length, count);
});

step('a job without a waiting caller is listed, and looked up with every return', async (t) => {
  const { stdout } = await command.salt('--async', '*', 'test.echo', 'later');
  const jid = /job ID: (\d{20})/.exec(stdout)?.[1] ?? '';
  const told = new EventLog(await master.api.events.subscribe({ match: `salt/job/${jid}/ret/*` }));
  const early = new Set((await master.api.jobs.show(jid)).returns.map(({ minion }) => minion));
  await fleet.each(async ({ id }) => {
    if (!early.has(id)) await told.seen(`${id}'s return`, ({ data }) => data.id === id);
  });
  const listed = await command.run(['jobs', 'list']);
  t.true(listed.stdout.includes(jid));
  const shown = await command.run(['jobs', 'show'], '--json', jid);
  const job = JSON.parse(shown.stdout);
  t.deepEqual(job.returns.map((result: { minion: string }) => result.minion).sort(), fleet.ids);
  for (const result of job.returns) t.is(result.return, 'later');
});

step('minions outside the target do not answer a job', async (t) => {
  const { counters } = await master.api.status();
  t.deepEqual(
    Object.keys(counters).filter((reason) => reason.startsWith('return-')),
    [],
  );
});
