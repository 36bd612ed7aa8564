/** `AWS::CloudFormation::Init` on real minions. Each runs in a temporary Debian root. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { allow } from '#acl';
import { createBridge } from '#guests';
import type { CommandDefinition } from '#heat-bridge';
import { compileInstall } from '#heat-bridge/commands/states/install-definition.ts';
import type { WireValue } from '#minion-protocol';
import type { JsonValue } from '#runtime';
import { type StandInHeat, startStandInHeat } from '../heat-bridge/deployments/stand-in-heat.ts';
import { until } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { EventLog } from './event-log.ts';
import { Fleet, runJob } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';
import type { RealMinionOptions } from './real-minion.ts';
import { hasSystemd, hasThrowawayRoot } from './throwaway-root.ts';

const step = hasThrowawayRoot
  ? steps('SALT_MINION')
  : testWhere(false, 'root, Debian, overlayfs and SALT_MINION');

/** Programs of the minions. If SALT_MINION is not set, the tests are declared and skipped. */
const programs = minionPrograms.length === 0 ? ['any/bin/salt-minion'] : minionPrograms.slice(0, 2);

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

const fixture = new URL('../../test/fixtures/cfn-init/cases.json', import.meta.url);
const { cases }: { readonly cases: readonly Case[] } = JSON.parse(readFileSync(fixture, 'utf8'));
const anywhere = '/srv/saltbridge-cases';

interface Stage {
  readonly heat: StandInHeat;
  readonly master: OurMaster;
  readonly minion: string;
  /** Applies metadata on the minion. Returns the result as Heat receives it. */
  readonly apply: (init: object, configSets?: string) => Promise<Readonly<Record<string, unknown>>>;
  /**
   * Runs the command that installs packages. Returns its status and the number of states with
   * changes.
   */
  readonly install: (params: Parameters) => Promise<{ status: string; changed: number }>;
  /** Returns the output of a shell command on the minion. */
  readonly shell: (command: string) => Promise<string>;
}

type Parameters = Readonly<Record<string, JsonValue>>;

const installs: CommandDefinition = {
  name: 'demo.install',
  description: 'Installs what a service asks for.',
  timeoutSeconds: 300,
  parameters: {
    type: 'object',
    required: ['password'],
    properties: { password: { type: 'string' }, word: { type: 'string' } },
  },
  secret: ['password'],
  install: [
    {
      name: 'base',
      packages: [{ name: 'saltbridge-demo', version: '1.2-3' }],
      groups: [{ name: 'demo', gid: 4812 }],
      users: [{ name: 'demo', uid: 4812, groups: ['daemon'], home: '/srv/demo' }],
    },
    {
      name: 'site',
      files: [
        {
          path: '/srv/demo/secret',
          content: '{{password}} & {{grains}};\n',
          variables: { password: { parameter: 'password' } },
          mode: '0640',
          owner: 'demo',
          group: 'demo',
        },
      ],
      scripts: [
        {
          name: 'note',
          command: [
            'sh',
            '-c',
            'printf %s "$1$WORD$AFTER" > /srv/demo/note',
            'sh',
            { parameter: 'word' },
          ],
          env: { WORD: { parameter: 'password' }, AFTER: '!' },
          test: '! test -e /srv/demo/note',
        },
      ],
    },
  ],
};

const catalog = `
deployments:
  site.init:
    description: Whatever the author of the template says; made for this test alone.
    group: cfn-init
    unsafe: i-understand
    parameters: { type: object, properties: { configSets: { type: string } } }
`;

/**
 * Starts a minion.
 * @param about - grains that replace detected grains, and process 1 of the minion
 */
async function start(
  t: ExecutionContext,
  program: string,
  about: Pick<RealMinionOptions, 'grains' | 'init'> = {},
): Promise<Stage> {
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
    allow('installs', {
      subject: { service: 'bridge' },
      action: 'command',
      resource: { fun: 'demo.*', within: '*' },
    }),
  ];
  const bridge = createBridge({ commands: [installs] });
  const home = place.with({
    acl: { signals: [], rules },
    // Timeouts are long, because machines that run tests may be slow.
    timeout: 60,
    gatherJobTimeout: 60,
    bridge: {
      catalog: [file],
      handles: { endpoints: [heat.origin] },
      deployments: { poll_interval: 1 },
    },
  });
  const fleet = await Fleet.create({ ...home.ports, ...about, isThrownAway: true }, [program]);
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
    await until(`result ${count}`, () => heat.results.length >= count);
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
  const install: Stage['install'] = async (params) => {
    const run = await bridge.run('demo.install', { target: minion, params });
    const { status, results } = await run.outcome;
    const states = Object.values(results[0]?.return ?? {}) as { readonly changes: object }[];
    const changed = states.filter(({ changes }) => Object.keys(changes).length > 0).length;
    return { status, changed };
  };
  return { heat, master, minion, apply, install, shell };
}

/** Returns the files in a directory of the minion. */
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

for (const program of programs) {
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

/** Script of a service that logs its starts, in the old System V format. */
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

/** A package that exists only in the temporary root. */
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

/**
 * Returns metadata with every supported section.
 * @param content - text that the files contain
 */
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
        always: {
          command: 'echo "$SHELL_WORD$EMPTY$NUMBER" >> /srv/ran',
          env: { SHELL_WORD: `it's "$(id)"`, EMPTY: '', NUMBER: 2 },
        },
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
  writeFileSync(path.join(directory, 'fetched'), 'fetched\n');
  execFileSync('tar', ['-C', directory, '-czf', path.join(directory, 'archive.tgz'), 'one', 'two']);
  return serveFolder(t, directory);
}

/** Serves a folder over HTTP until the end of the test. */
async function serveFolder(t: ExecutionContext, directory: string): Promise<string> {
  const server = createServer(({ url = '' }, response) => {
    const file = path.join(directory, new URL(url, 'http://localhost').pathname);
    const isThere = statSync(file, { throwIfNoEntry: false })?.isFile() ?? false;
    // pip sends this request.
    if (file.endsWith('.html')) response.setHeader('content-type', 'text/html');
    response.writeHead(isThere ? 200 : 404).end(isThere ? readFileSync(file) : undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Returns the results of the states, by the section to which they belong. */
function endsOf({ deploy_stdout: stdout }: Readonly<Record<string, unknown>>): Map<string, string> {
  const lines = String(stdout).split('\n');
  const found = lines.map((line) =>
    /^config (.*): (changed|unchanged|failed|not applied)$/.exec(line),
  );
  return new Map(found.flatMap((it) => (it === null ? [] : [[it[1] ?? '', it[2] ?? '']])));
}

for (const program of programs) {
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
      t.is(found.ran?.text, `it's "$(id)"2\n`);
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

for (const program of programs) {
  const version = path.basename(path.dirname(path.dirname(program)));

  step(`a service installs without CloudFormation's format (${version})`, async (t) => {
    const stage = await start(t, program);
    const { install, shell, master, minion } = stage;
    await shell(repository);
    const params = { password: `it's {{ "$(id)" }}`, word: "a'b" };
    t.like(await install(params), { status: 'succeeded' });
    t.is(await shell('cat /srv/demo/secret'), `it's {{ "$(id)" }} & ;`);
    t.is(await shell('cat /srv/demo/note'), `a'bit's {{ "$(id)" }}!`);
    t.is(await shell('stat -c "%a %U %G" /srv/demo/secret'), '640 demo demo');
    t.is(await shell('id -Gn demo'), 'demo daemon');
    t.deepEqual(await install(params), { status: 'succeeded', changed: 0 });
    t.deepEqual(await install({ ...params, password: 'other' }), {
      status: 'succeeded',
      changed: 1,
    });
    t.false(JSON.stringify(await master.api.jobs.list()).includes('$(id)'));

    // The kernels of test machines have no SELinux. Salt reads the state and reports what it would
    // do.
    const file = {
      path: '/srv/labelled',
      content: 'x',
      selinux: { type: 'etc_t', user: 'system_u' },
    };
    const { states } = compileInstall('demo.label', [{ name: 'one', files: [file] }], [])({});
    const { returns } = await runJob(master.api, {
      tgt: minion,
      fun: 'state.high',
      kwarg: { data: states as WireValue, test: true },
    });
    const [rendered] = Object.values(Object(returns.get(minion)?.return));
    t.like(rendered, { result: null, name: '/srv/labelled', __id__: 'saltbridge-0001' });
  });
}

/** Unit of a service that logs its starts. */
const unit = `[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c "echo start >> /srv/starts"
[Install]
WantedBy=multi-user.target
`;
const systemdStep = hasSystemd ? step : testWhere(false, 'the package systemd');

for (const program of programs) {
  const version = path.basename(path.dirname(path.dirname(program)));

  systemdStep(
    `a service of systemd is enabled, runs, and restarts when its file has changed (${version})`,
    async (t) => {
      const { apply, shell } = await start(t, program, { init: 'systemd' });
      t.is(await shell('ps -o comm= -p 1'), 'systemd');
      const init = (content: string, service: object): object => ({
        config: {
          files: {
            '/etc/systemd/system/demo.service': { content: unit },
            '/srv/plain': { content },
          },
          services: { systemd: { demo: { files: ['/srv/plain'], ...service } } },
        },
      });
      const state = (): Promise<string> =>
        shell('systemctl is-enabled demo; systemctl is-active demo; cat /srv/starts');
      const running = { enabled: 'true', ensureRunning: 'true' };
      const first = await apply(init('one', running));
      t.is(first.deploy_status_code, 0, JSON.stringify(first));
      t.is(await state(), 'enabled\nactive\nstart');
      const second = await apply(init('one', running));
      t.false([...endsOf(second).values()].includes('changed'), JSON.stringify(second));
      const third = await apply(init('two', running));
      t.is(endsOf(third).get('config: services: demo'), 'changed');
      t.is(await state(), 'enabled\nactive\nstart\nstart');
      const last = await apply(init('two', { enabled: 'false', ensureRunning: 'false' }));
      t.is(last.deploy_status_code, 0, JSON.stringify(last));
      t.is(await state(), 'disabled\ninactive\nstart\nstart');
    },
  );
}

// Package managers other than Debian's own, in a root that looks like another system. Debian
// packages these managers.

/**
 * Packages in the formats of these managers, with the lists that the managers read. The packages
 * exist nowhere else.
 */
const foreignRepositories = `
set -e
cd "$0"
for version in 1.2 1.3; do
  cat > demo.spec <<END
Name: saltbridge-demo
Version: $version
Release: 3
Summary: demo
License: none
BuildArch: noarch
%description
demo
%install
mkdir -p %{buildroot}/usr/share/saltbridge-demo
echo $version > %{buildroot}/usr/share/saltbridge-demo/version
%files
/usr/share/saltbridge-demo/version
END
  rpmbuild -bb --quiet --define "_topdir $0/build" --define "_rpmdir $0/rpm" demo.spec
done
sed 's/saltbridge-demo/saltbridge-alone/' demo.spec > alone.spec
rpmbuild -bb --quiet --define "_topdir $0/build" --define "_rpmdir $0/alone" alone.spec
createrepo_c -q rpm
mkdir -p gem/gems
for version in 0.1.0 0.2.0; do
  cat > demo.gemspec <<END
Gem::Specification.new do |gem|
  gem.name = 'saltbridge-demo'
  gem.version = '$version'
  gem.summary = 'demo'
  gem.authors = ['nobody']
end
END
  gem build demo.gemspec
  mv saltbridge-demo-$version.gem gem/gems
done
gem generate_index -d gem
mkdir pip
cd pip
python3 - <<'END'
import zipfile
for version in '0.1.0', '0.2.0':
    name = f'saltbridge_demo-{version}'
    files = {
        'saltbridge_demo.py': f'version = "{version}"\\n',
        f'{name}.dist-info/METADATA': f'Metadata-Version: 2.1\\nName: saltbridge-demo\\nVersion: {version}\\n',
        f'{name}.dist-info/WHEEL': 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
    }
    record = f'{name}.dist-info/RECORD'
    files[record] = ''.join(f'{file},,\\n' for file in [*files, record])
    with zipfile.ZipFile(f'{name}-py3-none-any.whl', 'w') as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    with open('index.html', 'a') as index:
        index.write(f'<a href="{name}-py3-none-any.whl">{name}</a>\\n')
END
`;

/**
 * Script that makes the managers use only these repositories, and rpm and zypper the same database.
 */
function useForeignRepositories(origin: string): string {
  return `
mkdir -p /etc/yum.repos.d /etc/zypp/repos.d /etc/rpm
printf '[demo]\\nname=demo\\nbaseurl=${origin}/rpm\\ngpgcheck=0\\nenabled=1\\n' > /etc/yum.repos.d/demo.repo
cp /etc/yum.repos.d/demo.repo /etc/zypp/repos.d/demo.repo
printf '%%_dbpath /var/lib/rpm\\n' > /etc/rpm/macros
rm -rf /root/.config/pip /root/.pip /etc/xdg/pip
printf '[global]\\nno-index = true\\nfind-links = ${origin}/pip/index.html\\nbreak-system-packages = true\\n' > /etc/pip.conf
printf -- '---\\n:sources:\\n- ${origin}/gem/\\n' > /etc/gemrc
# Of files as well: the packages are not signed.
printf '[main]\\ngpgcheck = off\\npkg_gpgcheck = off\\n' > /etc/zypp/zypp.conf
ln -sf dnf /usr/bin/yum`;
}

interface Family {
  readonly name: string;
  readonly grains: string;
  readonly managers: readonly string[];
}

const families: readonly Family[] = [
  {
    name: 'dnf, yum and rpm',
    grains: '{os: Fedora, os_family: RedHat, osrelease: "38", osmajorrelease: 38}',
    managers: ['dnf', 'yum'],
  },
  {
    name: 'zypper and rpm',
    grains: '{os: SUSE, os_family: Suse, osrelease: "15.5", osmajorrelease: 15}',
    managers: ['zypper'],
  },
];
const foreignPrograms = ['rpmbuild', 'createrepo_c', 'dnf', 'zypper', 'gem', 'pip'];
const hasForeignManagers = foreignPrograms.every((it) => existsSync(`/usr/bin/${it}`));
const foreignStep = hasForeignManagers
  ? step
  : testWhere(false, 'the packages rpm, createrepo-c, dnf, zypper, ruby and python3-pip');

// Each manager has its own minion, because a minion caches data about the managers.
for (const [index, { name, grains, managers }] of families.entries()) {
  const program = programs[index % programs.length] ?? '';
  const version = path.basename(path.dirname(path.dirname(program)));

  foreignStep(
    `packages of ${name}, gems, and Python’s are installed by their managers (${version})`,
    async (t) => {
      // These settings of the account that runs the tests take precedence over the file of the
      // minion.
      for (const name of Object.keys(process.env)) {
        if (name.startsWith('PIP_')) delete process.env[name];
      }
      const directory = temporaryDirectory(t);
      execFileSync('sh', ['-c', foreignRepositories, directory], { stdio: 'pipe' });
      const origin = await serveFolder(t, directory);
      const { apply, shell } = await start(t, program, { grains });
      await shell(useForeignRepositories(origin));
      const installed = (): Promise<string> =>
        shell(
          "rpm -qa --queryformat '%{NAME} %{VERSION}-%{RELEASE}\\n' 'saltbridge-*' | sort; gem list --local '^saltbridge'; /usr/bin/python3 -m pip list --format freeze | grep ^saltbridge",
        );
      const changedBy = async (packages: object): Promise<readonly string[]> => {
        const values = await apply({ config: { packages } });
        t.is(values.deploy_status_code, 0, JSON.stringify(values));
        return [...endsOf(values)].filter(([, end]) => end === 'changed').map(([what]) => what);
      };
      for (const [place, manager] of managers.entries()) {
        if (place > 0) await shell('rpm -e saltbridge-demo');
        const label = `config: packages: ${manager}: saltbridge-demo`;
        const old = { [manager]: { 'saltbridge-demo': '1.2-3' } };
        t.deepEqual(await changedBy(old), [label]);
        t.is(await installed(), 'saltbridge-demo 1.2-3');
        t.deepEqual(await changedBy(old), []);
        t.deepEqual(await changedBy({ [manager]: { 'saltbridge-demo': [] } }), []);
        t.deepEqual(await changedBy({ [manager]: { 'saltbridge-demo': ['1.3-3'] } }), [label]);
        t.is(await installed(), 'saltbridge-demo 1.3-3');
      }
      const rest = {
        rpm: { 'saltbridge-alone': `${origin}/alone/noarch/saltbridge-alone-1.3-3.noarch.rpm` },
        rubygems: { 'saltbridge-demo': ['0.1.0'] },
        python: { 'saltbridge-demo': ['0.1.0'] },
      };
      t.deepEqual(await changedBy(rest), [
        'config: packages: rpm: saltbridge-alone',
        'config: packages: rubygems: saltbridge-demo',
        'config: packages: python: saltbridge-demo',
      ]);
      t.is(
        await installed(),
        'saltbridge-alone 1.3-3\nsaltbridge-demo 1.3-3\nsaltbridge-demo (0.1.0)\nsaltbridge-demo==0.1.0',
      );
      t.deepEqual(await changedBy(rest), []);
      const newer = { python: { 'saltbridge-demo': ['0.2.0'] } };
      t.deepEqual(await changedBy(newer), ['config: packages: python: saltbridge-demo']);
      t.is(
        await shell('/usr/bin/python3 -c "import saltbridge_demo as it; print(it.version)"'),
        '0.2.0',
      );
      t.deepEqual(await changedBy(newer), []);
      const unknown = await apply({ config: { packages: { python: { 'no-such': [] } } } });
      t.is(endOf(unknown), 'failed');
      const missing = await apply({
        config: { packages: { [managers[0] ?? '']: { 'no-such': [] } } },
      });
      t.is(endOf(missing), 'failed');
      const other = await apply({ config: { packages: { apt: { 'saltbridge-demo': [] } } } });
      t.regex(JSON.stringify(other), /another package manager/);
    },
  );
}
