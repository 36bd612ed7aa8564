/** Pillar of files, as real minions of all versions receive it. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { isWireMap, type WireValue } from '#minion-protocol';
import { layOut } from '../helpers/file-tree.ts';
import { EventLog } from './event-log.ts';
import { Fleet, runJob } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';

const step = steps('SALT_MINION');

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;
let events: EventLog;

test.before(async () => {
  if (minionPrograms.length === 0) return;
  const made = await MasterHome.create();
  const roots = path.join(made.directory, 'pillar');
  layOut(roots, {
    'base/top.sls':
      "base:\n  '*': [common, big]\n  'role:interop':\n    - match: grain\n    - role\n",
    'base/common.sls':
      "include: [more]\nname: {{ grains.id }}\nlist: [1, 2.5, null, true]\ntext: 'ä'\nnumbers: {1: one}\n",
    'base/more.sls': 'more: {of: {this: kind}}\n',
    'base/role.sls': 'role: {{ grains.role }}\n',
    'base/big.sls': `big:\n{% for n in range(8) %}\n  - {{ 'x' * ${2 ** 17} }}\n{% endfor %}\n`,
    'dev/top.sls': "dev:\n  '*': [dev]\n",
    'dev/dev.sls': 'dev: {{ saltenv }}\n',
  });
  home = made.with({
    pillarRoots: { base: [path.join(roots, 'base')], dev: [path.join(roots, 'dev')] },
    extPillar: [{ module: 'minion_files', directory: path.join(roots, 'minions') }],
  });
  fleet = await Fleet.create(home.ports);
  master = await home.startHere(null);
  events = new EventLog(await master.api.events.subscribe());
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

/** Converts maps to objects, regardless of the types of their keys. */
function tidy(value: WireValue | undefined): unknown {
  if (Array.isArray(value)) return value.map(tidy);
  if (value instanceof Map) {
    return Object.fromEntries([...value].map(([key, inner]) => [String(key), tidy(inner)]));
  }
  if (!isWireMap(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, tidy(inner)]));
}

/** Runs a function. Returns its results by minion. */
async function run(fun: string, arg: string[] = [], kwarg = {}): Promise<[string, unknown][]> {
  const { returns } = await runJob(master.api, { tgt: '*', fun, arg, kwarg });
  return fleet.ids.map((id) => [id, tidy(returns.get(id)?.return)]);
}

step('minions get the pillar of the files, with what they include', async (t) => {
  await fleet.enrol(master.api, events);
  for (const [id, value] of await run('pillar.get', ['name'])) t.is(value, id);
  for (const [, value] of await run('pillar.get', ['more:of:this'])) t.is(value, 'kind');
  for (const [, value] of await run('pillar.get', ['list']))
    t.deepEqual(value, [1, 2.5, null, true]);
  for (const [, value] of await run('pillar.get', ['text'])) t.is(value, 'ä');
  for (const [, value] of await run('pillar.get', ['role'])) t.is(value, 'interop');
  for (const [, value] of await run('pillar.get', ['dev'])) t.is(value, 'dev');
});

step('a pillar of 1 MB arrives completely', async (t) => {
  for (const [id, value] of await run('pillar.get', ['big:7'])) {
    t.is(typeof value === 'string' ? value.length : 0, 2 ** 17, id);
  }
});

step('a changed file is used after a refresh', async (t) => {
  writeFileSync(path.join(home.directory, 'pillar/base/more.sls'), 'more: {of: {this: sort}}\n');
  await run('saltutil.refresh_pillar', [], { wait: true });
  for (const [, value] of await run('pillar.items', ['more'])) {
    t.deepEqual(value, { more: { of: { this: 'sort' } } });
  }
});

step(
  'a pillar of the command line overrides it, and another environment stands alone',
  async (t) => {
    const override = { pillar: { more: { of: { that: 1 } } } };
    for (const [, value] of await run('pillar.items', [], override)) {
      t.like(value, { more: { of: { this: 'sort', that: 1 } } });
    }
    for (const [, value] of await run('pillar.items', [], { pillarenv: 'dev' })) {
      t.deepEqual(value, { dev: 'dev' });
    }
  },
);

step(
  'external pillar overrides the files, each minion has its own, and a broken one is named',
  async (t) => {
    const own = Object.fromEntries(
      fleet.ids.map((id) => [`minions/${id}.json`, JSON.stringify({ own: id, text: 'ext' })]),
    );
    layOut(path.join(home.directory, 'pillar'), own);
    await run('saltutil.refresh_pillar', [], { wait: true });
    for (const [id, value] of await run('pillar.items')) {
      t.like(value, { own: id, text: 'ext', role: 'interop' });
      t.false(JSON.stringify(value).includes('_errors'));
    }
    const [first] = Object.keys(own);
    layOut(path.join(home.directory, 'pillar'), { [first ?? '']: '{' });
    const errorText = 'Failed to load ext_pillar minion_files. Please see master log for details.';
    for (const [id, value] of await run('pillar.items')) {
      const errors =
        first === `minions/${id}.json` ? { _errors: [errorText], text: 'ä' } : { own: id };
      t.like(value, errors, id);
    }
    layOut(path.join(home.directory, 'pillar'), own);
  },
);

step(
  "a broken pillar is reported with Salt's text, and prevents states from running",
  async (t) => {
    writeFileSync(path.join(home.directory, 'pillar/base/more.sls'), 'more: {{ nothing }}\n');
    const errorText = "Rendering SLS 'more' failed. Please see master log for details.";
    for (const [, value] of await run('pillar.items')) {
      t.like(value, { _errors: [errorText], role: 'interop' });
    }
    for (const [id, value] of await run('state.apply', ['none'])) {
      t.true(JSON.stringify(value).includes(errorText), id);
    }
  },
);
