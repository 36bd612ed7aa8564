/** `AWS::CloudFormation::Init` on real minions, each in a Debian root that is thrown away. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { allow } from '../../acl/index.ts';
import { createBridge } from '../../heat-bridge/index.ts';
import { type StandInHeat, startStandInHeat } from '../heat-bridge/deployments/stand-in-heat.ts';
import { until } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { EventLog } from './event-log.ts';
import { Fleet, runJob } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';
import { hasThrowawayRoot } from './throwaway-root.ts';

const step = hasThrowawayRoot
  ? steps('SALT_MINION')
  : testWhere(false, 'root, Debian, overlayfs and SALT_MINION');

interface FoundFile {
  readonly mode?: string;
  readonly text?: string;
  readonly link?: string;
}

interface Case {
  readonly name: string;
  readonly init: object;
  readonly configsets?: string;
  readonly expected: {
    readonly end: 'failed' | 'refused' | 'succeeded';
    readonly files: Readonly<Record<string, FoundFile>>;
  };
}

const fixture = new URL('../../../test/fixtures/cfn-init/cases.json', import.meta.url);
const { cases }: { readonly cases: readonly Case[] } = JSON.parse(readFileSync(fixture, 'utf8'));
const anywhere = '/srv/saltbridge-cases';

interface Stage {
  readonly heat: StandInHeat;
  readonly master: OurMaster;
  readonly minion: string;
  /** Applies metadata to the minion; the result as Heat gets it. */
  readonly apply: (init: object, configSets?: string) => Promise<Readonly<Record<string, unknown>>>;
  /** What a shell prints on the minion. */
  readonly shell: (command: string) => Promise<string>;
}

const catalog = `
deployments:
  site.init:
    description: Whatever the author of the template says; made for this test alone.
    group: cfn-init
    unsafe: i-understand
    parameters: { type: object, properties: { configSets: { type: string } } }
`;

async function start(t: ExecutionContext, program: string): Promise<Stage> {
  const heat = await startStandInHeat(t);
  const place = await MasterHome.create();
  t.teardown(() => place.dispose());
  const file = path.join(place.directory, 'catalog.yaml');
  writeFileSync(file, catalog);
  const rules = [
    allow('deployments', {
      subject: { service: 'deployments' },
      action: 'command',
      resource: { fun: 'site.*', within: '*' },
    }),
  ];
  const bridge = createBridge();
  const home = place.with({
    acl: { signals: [], rules },
    // Machines that run tests may be slow.
    timeout: 60,
    gatherJobTimeout: 60,
    bridge: {
      catalog: [file],
      handles: { endpoints: [heat.origin] },
      deployments: { poll_interval: 1 },
    },
  });
  const fleet = await Fleet.create({ ...home.ports, isThrownAway: true }, [program]);
  t.teardown(() => fleet.dispose());
  const master = await home.startHere(null, { extensions: [bridge] });
  t.teardown(() => master.close());
  await fleet.enrol(master.api, new EventLog(await master.api.events.subscribe()));
  const [minion = ''] = fleet.ids;
  await bridge.stacks.add({
    name: 'demo',
    servers: [{ server: 'server-1', minion }],
    login: { auth_url: `${heat.origin}/v3`, user_id: 'owner', password: 'secret', project_id: 'p' },
  });
  let count = 0;
  const apply: Stage['apply'] = async (init, configSets) => {
    count += 1;
    const inputs = configSets === undefined ? {} : { configSets };
    const more = { group: 'cfn-init', config: init, outputs: [] };
    heat.servers.set('server-1', [heat.entry(`case-${count}`, more, inputs)]);
    await until(`result ${count}`, () => heat.results.length >= count, 60_000);
    return heat.results[count - 1]?.values ?? {};
  };
  const shell: Stage['shell'] = async (command) => {
    const { returns } = await runJob(master.api, {
      tgt: minion,
      fun: 'cmd.run_stdout',
      kwarg: { cmd: command, python_shell: true, shell: '/bin/sh' },
    });
    return String(returns.get(minion)?.return);
  };
  return { heat, master, minion, apply, shell };
}

/** What a directory of the minion has. */
async function filesIn({ shell }: Stage, directory: string): Promise<Record<string, FoundFile>> {
  const found = await shell(`cd ${directory} && find . -type f -o -type l | while read -r f; do
    if [ -L "$f" ]; then printf '%s\\t\\t%s\\n' "$f" "$(readlink "$f")"
    else printf '%s\\t%s\\t%s\\n' "$f" "$(stat -c %a "$f")" "$(base64 -w0 "$f")"; fi
  done`);
  const lines = found.split('\n').filter((line) => line !== '');
  return Object.fromEntries(
    lines.map((line): [string, FoundFile] => {
      const [name = '', mode = '', rest = ''] = line.slice(2).split('\t');
      if (mode === '') return [name, { link: rest }];
      return [name, { mode, text: Buffer.from(rest, 'base64').toString('utf8') }];
    }),
  );
}

function endOf(values: Readonly<Record<string, unknown>>): string {
  if (values.deploy_status_code === 0) return 'succeeded';
  return String(values.deploy_stderr).startsWith('refused: ') ? 'refused' : 'failed';
}

for (const program of minionPrograms.slice(0, 2)) {
  const version = path.basename(path.dirname(path.dirname(program)));

  step(`the cases of heat-cfntools end as AWS's guide says (${version})`, async (t) => {
    const stage = await start(t, program);
    await stage.shell(`mkdir -p ${cases.map(({ name }) => `${anywhere}/${name}`).join(' ')}`);
    for (const { name, init, configsets, expected } of cases) {
      const root = `${anywhere}/${name}`;
      const local = <T>(value: T): T =>
        JSON.parse(JSON.stringify(value).replaceAll('@ROOT@', root));
      const values = await stage.apply(local(init), configsets);
      t.is(endOf(values), expected.end, `${name}: ${JSON.stringify(values)}`);
      const files = local(expected.files);
      const found = await filesIn(stage, root);
      t.deepEqual(found, files, `${name}: ${JSON.stringify(values)}`);
    }
  });
}

/** Logs its starts; as old as what it serves. */
const initScript = `#!/bin/sh
### BEGIN INIT INFO
# Provides: demo
# Required-Start: $remote_fs
# Required-Stop: $remote_fs
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
# Short-Description: demo
### END INIT INFO
case "$1" in
  start) echo start >> /srv/starts; touch /run/demo ;;
  stop) rm -f /run/demo ;;
  restart) "$0" stop; "$0" start ;;
  status) [ -e /run/demo ] ;;
esac
`;

/** A package that is nowhere but in the root that is thrown away. */
const repository = `
set -e
mkdir -p /srv/repository/demo/DEBIAN /srv/repository/demo/usr/share/demo
printf 'Package: saltbridge-demo\\nVersion: 1.2-3\\nArchitecture: all\\nMaintainer: a <a@example.org>\\nDescription: demo\\n' > /srv/repository/demo/DEBIAN/control
cd /srv/repository
dpkg-deb --build demo demo.deb
{ cat demo/DEBIAN/control; printf 'Filename: ./demo.deb\\nSize: %s\\nSHA256: %s\\n\\n' "$(stat -c %s demo.deb)" "$(sha256sum demo.deb | cut -d' ' -f1)"; } > Packages
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list
`;

/** Everything that metadata can say, with a content of its own. */
function everything(origin: string, content: string): object {
  return {
    configSets: { default: [{ ConfigSet: 'first' }, 'last'], first: ['base'] },
    base: {
      packages: { apt: { 'saltbridge-demo': ['1.2-3'] } },
      groups: { cfn: { gid: '4711' }, daemon: { gid: '999' } },
      users: {
        cfn: { uid: '4711', groups: ['daemon'], homeDir: '/srv/cfn' },
        games: { uid: 1 },
      },
      sources: { '/srv/unpacked': `${origin}/archive.tgz?signature=1` },
      files: {
        '/srv/plain': { content, mode: '000640', owner: 'cfn', group: 'cfn' },
        '/srv/lines': { content: 'a\r\nb\u2028c' },
        '/srv/empty': { content: '' },
        '/srv/jinja': { content: '{{ grains.id }} {% raw %}\n\n' },
        '/srv/slot': { content: '__slot__:salt:cmd.run(touch /srv/slot-ran)\n' },
        '/srv/bytes': { content: '/wD+', encoding: 'base64' },
        '/srv/fetched': { source: `${origin}/fetched` },
        '/srv/link': { content: 'bytes', mode: '120400' },
        '/etc/init.d/demo': { content: initScript, mode: '000755' },
      },
      commands: {
        always: { command: 'echo "$SHELL_WORD" >> /srv/ran', env: { SHELL_WORD: `it's "$(id)"` } },
        once: { command: ['touch', '/srv/a b'], test: "! test -e '/srv/a b'" },
        never: { command: 'touch /srv/never', test: 'exit 1' },
        register: { command: 'update-rc.d demo defaults', test: '! ls /etc/rc3.d/*demo' },
        ignored: { command: ['/no/such/program'], ignoreErrors: 'true', cwd: '~' },
      },
    },
    last: {
      services: {
        sysvinit: { demo: { enabled: 'true', ensureRunning: 'true', files: ['/srv/plain'] } },
      },
    },
  };
}

async function startFiles(t: ExecutionContext): Promise<string> {
  const directory = temporaryDirectory(t);
  writeFileSync(path.join(directory, 'one'), '1');
  writeFileSync(path.join(directory, 'two'), '2');
  execFileSync('tar', ['-C', directory, '-czf', path.join(directory, 'archive.tgz'), 'one', 'two']);
  const served = new Map([
    ['/archive.tgz', readFileSync(path.join(directory, 'archive.tgz'))],
    ['/fetched', Buffer.from('fetched\n')],
  ]);
  const server = createServer(({ url = '' }, response) => {
    const body = served.get(new URL(url, 'http://localhost').pathname);
    response.writeHead(body === undefined ? 404 : 200).end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What became of the states, by what each is for. */
function endsOf({ deploy_stdout: stdout }: Readonly<Record<string, unknown>>): Map<string, string> {
  const lines = String(stdout).split('\n');
  const found = lines.map((line) =>
    /^config (.*): (changed|unchanged|failed|not applied)$/.exec(line),
  );
  return new Map(found.flatMap((it) => (it === null ? [] : [[it[1] ?? '', it[2] ?? '']])));
}

for (const program of minionPrograms.slice(0, 2)) {
  const version = path.basename(path.dirname(path.dirname(program)));

  step(
    `all sections are applied, and the second time only what always runs (${version})`,
    async (t) => {
      const origin = await startFiles(t);
      const stage = await start(t, program);
      const { apply, shell } = stage;
      await shell(repository);
      const first = await apply(everything(origin, 'one\n'));
      t.is(first.deploy_status_code, 0, JSON.stringify(first));
      t.is(
        await shell('dpkg -s saltbridge-demo | grep -E "^(Status|Version)"'),
        'Status: install ok installed\nVersion: 1.2-3',
      );
      t.is(await shell('getent group cfn daemon'), 'cfn:x:4711:\ndaemon:x:1:cfn');
      t.is(
        await shell('getent passwd cfn games'),
        'cfn:x:4711:4711::/srv/cfn:/sbin/nologin\ngames:x:5:60:games:/usr/games:/usr/sbin/nologin',
      );
      t.is(await shell('cat /srv/unpacked/one /srv/unpacked/two'), '12');
      t.is(await shell('stat -c "%a %U %G" /srv/plain /srv/bytes'), '640 cfn cfn\n400 root root');
      const found = await filesIn(stage, '/srv');
      t.is(found.lines?.text, 'a\r\nb\u2028c');
      t.is(found.empty?.text, '');
      t.is(found.jinja?.text, '{{ grains.id }} {% raw %}\n\n');
      t.is(found.slot?.text, '__slot__:salt:cmd.run(touch /srv/slot-ran)\n');
      t.is(found.fetched?.text, 'fetched\n');
      t.is(found.link?.link, 'bytes');
      t.is(await shell('od -An -tx1 /srv/bytes'), ' ff 00 fe');
      t.is(found.ran?.text, `it's "$(id)"\n`);
      t.deepEqual([found['a b']?.text, found.never, found['slot-ran']], ['', undefined, undefined]);
      t.is(found.starts?.text, 'start\n');

      const second = await apply(everything(origin, 'one\n'));
      const changed = [...endsOf(second)]
        .filter(([, end]) => end === 'changed')
        .map(([what]) => what);
      t.deepEqual(changed, [
        'base: sources: /srv/unpacked',
        'base: commands: always',
        'base: commands: ignored',
      ]);
      t.is((await filesIn(stage, '/srv')).starts?.text, 'start\n');

      const third = await apply(everything(origin, 'two\n'));
      t.is(endsOf(third).get('last: services: demo'), 'changed');
      t.is((await filesIn(stage, '/srv')).starts?.text, 'start\nstart\n');
    },
  );
}
