/** Values that real minions write for each other, by `sdb://` and by the module. */
import { execFile } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';
import { allow } from '#acl';
import { type Bridge, createBridge } from '#guests';
import { isWireMap, type WireValue } from '#minion-protocol';
import { writeJson } from '#runtime';
import { blocksRunBy, codeBlocks, linesOf } from '../helpers/markdown.ts';
import { testWhere } from '../helpers/needs.ts';
import { Shell } from '../helpers/shell.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';

const step = steps('SALT_MINION');
const stepWithRuby = existsSync('/usr/bin/facter')
  ? step
  : testWhere(false, 'the packages facter and ruby');
const rubyClient = fileURLToPath(
  new URL('../../clients/guests/saltbridge/saltbridge.rb', import.meta.url),
);

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;
let bridge: Bridge;
let events: EventLog;

const rule = allow('guests', {
  subject: { minion: '*' },
  action: 'runner',
  resource: { fun: 'saltbridge_*' },
});

test.before(async () => {
  if (minionPrograms.length === 0) return;
  home = await MasterHome.create({
    acl: { signals: [], rules: [rule], mode: 'enforce', learnActions: [], recordData: false },
  });
  bridge = createBridge({ extensions: { 'data-spaces': true } });
  fleet = await Fleet.create(home.ports);
  master = await home.startHere(async () => ({}), { extensions: [bridge] });
  events = new EventLog(await master.api.events.subscribe());
  await fleet.enrol(master.api, events);
  const [writer = '', reader = writer] = fleet.ids;
  await bridge.data.add({
    name: 'shop',
    roles: {
      db: { minions: [writer], writes: { password: { secret: true }, port: {}, never: {} } },
      app: {
        minions: writer === reader ? [] : [reader],
        reads: { 'mysql:password': 'db/password', 'mysql:port': 'db/port', never: 'db/never' },
      },
    },
  });
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

async function run(
  tgt: string,
  fun: string,
  arg: readonly string[] = [],
  kwarg: Readonly<Record<string, WireValue>> = {},
): Promise<WireValue> {
  const request = { tgt, tgtType: 'list', fun, arg, kwarg, timeoutSeconds: 120 };
  for await (const update of master.api.jobs.run(request)) {
    if (update.type === 'return') return update.return;
  }
  throw new Error(`${tgt} did not return from ${fun}`);
}

function minionOf(id: string): (typeof fleet.minions)[number] {
  const minion = fleet.minions.find((it) => it.id === id);
  if (minion === undefined) throw new Error(`no minion ${id}`);
  return minion;
}

/** Returns a function that runs `salt-call` with the configuration of a minion. */
async function saltCallOf(id: string): Promise<string> {
  const index = fleet.ids.indexOf(id);
  const program = minionPrograms[index] ?? minionPrograms[0] ?? '';
  const confFile = String(await run(id, 'config.get', ['conf_file']));
  return `${path.join(path.dirname(program), 'salt-call')} -c ${path.dirname(confFile)}`;
}

step('minions get the modules from the file server', async (t) => {
  for (const id of fleet.ids) {
    const synced = await run(id, 'saltutil.sync_all');
    t.regex(JSON.stringify(synced), /sdb\.saltbridge_data/);
    t.regex(JSON.stringify(synced), /modules\.saltbridge_data/);
    t.regex(JSON.stringify(synced), /modules\.saltbridge_peers/);
  }
});

step('a reader that starts first gets the value when its writer has written it', async (t) => {
  const [writer = '', reader = ''] = fleet.ids;
  const reading = run(reader, 'sdb.get', ['sdb://saltbridge/db/password']);
  await events.seen('the request of the reader', ({ data }) => data.fun === 'sdb.get');
  await minionOf(writer).saltCall('sdb.set', 'sdb://saltbridge/db/password', 'secret-4711');
  t.is(await reading, '(secret)');
  t.is(await run(writer, 'saltbridge_data.put', ['db/port'], { value: 3306 }), 1);
  t.is(await run(reader, 'saltbridge_data.get', ['db/port']), '3306');
});

step('no event and no job contains a secret value that minions read and write', async (t) => {
  const [writer = '', reader = ''] = fleet.ids;
  const fired: unknown[] = [];
  const subscription = await master.api.events.subscribe();
  void (async () => {
    for await (const event of subscription) fired.push(event);
  })();
  const { saltCall } = minionOf(reader);
  for (const call of [
    ['saltbridge_data.get', 'db/password'],
    ['saltbridge_data.get', 'key=db/password'],
    ['sdb.get', 'sdb://saltbridge/db/password'],
  ] as const) {
    t.regex(await saltCall.call(minionOf(reader), ...call), /secret-4711/);
  }
  t.is(await run(reader, 'saltbridge_data.get', ['db/password']), '(secret)');
  await minionOf(writer).saltCall('saltbridge_data.put', 'db/password', 'secret-4711');
  await master.api.events.fire('test/end', {});
  await eventually('the last event', async () => writeJson(fired as never).includes('test/end'));
  const jobs = await master.api.jobs.list();
  const details = await Promise.all(jobs.map(({ jid }) => master.api.jobs.show(jid)));
  const text = writeJson([fired, details] as never);
  t.true(text.includes('(secret)'));
  t.false(text.includes('secret-4711'), 'a secret value is in an event or a job');
});

step('a writer that does not write causes a timeout that names it', async (t) => {
  const [writer = '', reader = ''] = fleet.ids;
  const text = String(await run(reader, 'saltbridge_data.get', ['db/never'], { timeout: 2 }));
  t.regex(text, /db\/never has not been written yet by the role db/);
  t.true(text.includes(`minion ${writer} (connected)`), text);
  t.regex(text, /waited 2 s/);
});

step('a minion cannot write values of another role, and writes a value once', async (t) => {
  const [writer = '', reader = ''] = fleet.ids;
  t.regex(
    String(await run(reader, 'saltbridge_data.put', ['db/port', 'x'])),
    /not declare that it writes/,
  );
  t.regex(
    String(await run(writer, 'saltbridge_data.put', ['db/port', '1'])),
    /already been written/,
  );
});

step('a minion enrolled for a project finds the others in it', async (t) => {
  const [one = '', two = ''] = fleet.ids;
  const keys = await master.api.keys.list();
  const minions = [one, two].map((id) => {
    const { fingerprint = '' } = keys.find((key) => key.id === id) ?? {};
    return { id, project: 'p1', instance: `instance-of-${id}`, fingerprint };
  });
  await bridge.enroll.import(minions);
  const list = await run(two, 'saltbridge_peers.list');
  const text = JSON.stringify(list);
  t.regex(text, /"project_id":"p1"/);
  t.true(text.includes(`"minion":"${one}"`), text);
  t.false(text.includes(`"minion":"${two}"`), text);
  t.deepEqual(await run(two, 'saltbridge_peers.addresses'), []);
});

step(
  'known values are in the pillar of a reader, and in states under their own names',
  async (t) => {
    const [, reader = ''] = fleet.ids;
    await run(reader, 'saltutil.refresh_pillar', [], { wait: true });
    const data = await run(reader, 'pillar.get', ['saltbridge:data:attributes']);
    t.deepEqual(isWireMap(data) ? { ...data } : data, {
      'mysql:password': '(secret)',
      'mysql:port': '3306',
    });
    // Only the return to the master is redacted.
    const own = await minionOf(reader).saltCall('pillar.get', 'saltbridge:data:attributes');
    t.true(String(own).includes('secret-4711'), String(own));
  },
);

stepWithRuby('Facter and Chef read by salt-call, and values of a file are written', async (t) => {
  const [writer = '', reader = ''] = fleet.ids;
  await bridge.data.add(
    {
      name: 'shop',
      roles: {
        db: { minions: [writer], writes: { 'app-url': { attribute: 'app:url' } } },
        app: { minions: [reader], reads: { 'site:url': 'db/app-url' } },
      },
    },
    { replaces: true },
  );
  for (const id of fleet.ids) await run(id, 'saltutil.refresh_pillar', [], { wait: true });
  const directory = temporaryDirectory(t);
  const environmentOf = async (
    id: string,
  ): Promise<Readonly<Record<string, string | undefined>>> => {
    const { PATH } = process.env;
    return { PATH, HOME: directory, SALTBRIDGE_SALT_CALL: await saltCallOf(id) };
  };
  copyFileSync(rubyClient, path.join(directory, 'saltbridge.rb'));
  const asked = promisify(execFile)('facter', ['--json', 'saltbridge'], {
    env: { ...(await environmentOf(reader)), FACTERLIB: directory },
  });
  const nasty = `it's "$(id)"`;
  const put = `require '${rubyClient}'; Saltbridge.put('app:url' => ENV.fetch('VALUE'))`;
  const env = { ...(await environmentOf(writer)), VALUE: nasty };
  await promisify(execFile)('ruby', ['-e', put], { env });
  t.deepEqual(JSON.parse((await asked).stdout), { saltbridge: { site: { url: nasty } } });
});

step('the commands of docs/data-spaces.md read, write and fetch on minions', async (t) => {
  const [writer = '', reader = ''] = fleet.ids;
  const [json] = codeBlocks('docs/data-spaces.md').filter(({ language }) => language === 'json');
  const { roles } = JSON.parse(json?.text ?? '{}');
  await bridge.data.remove('shop');
  await bridge.data.add({
    name: 'shop',
    roles: { db: { ...roles.db, minions: [writer] }, app: { ...roles.app, minions: [reader] } },
  });
  const directory = temporaryDirectory(t);
  const shellOf = async (id: string): Promise<Shell> => {
    const shell = new Shell(t, directory, process.env);
    await shell.type(`salt-call() { ${await saltCallOf(id)} "$@"; }`);
    return shell;
  };
  const shells = { reader: await shellOf(reader), writer: await shellOf(writer) };
  const [values, client] = blocksRunBy('test/interop/guests.test.ts');
  if (values === undefined || client === undefined) return t.fail('two blocks');
  const [get = '', put = ''] = linesOf(values);
  const reading = shells.reader.type(get, 120_000);
  t.deepEqual((await shells.writer.type(put, 120_000)).failures, []);
  const { failures, output } = await reading;
  t.deepEqual(failures, [], output);
  t.true(output.includes('s3cret'), output);

  const typed = client.text.replaceAll('/usr/local/lib', directory);
  const fetched = await shells.reader.type(typed, 120_000);
  t.deepEqual(fetched.failures, [], fetched.output);
  const file = path.join(directory, 'saltbridge/saltbridge.rb');
  t.is(readFileSync(file, 'utf8'), readFileSync(rubyClient, 'utf8'));
});
