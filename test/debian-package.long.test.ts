/** The Debian package is built without a network, run from its unpacked files, and installed. */

import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { freePort } from '../bench/free-port.ts';
import { buildDebianPackage } from './helpers/debian-package.ts';
import { root } from './helpers/markdown.ts';
import { testWhere } from './helpers/needs.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

const isAsked = process.env.SALTBRIDGE_PACKAGES !== undefined;
const has = (program: string): boolean => spawnSync(program, ['--version']).error === undefined;
const needed = (names: string): string => (isAsked ? names : 'npm run campaign -- packages');
const withDpkg = testWhere(
  isAsked && ['dpkg-deb', 'help2man'].every(has),
  needed('the packages dpkg and help2man'),
);
const isRoot = process.getuid?.() === 0;
const withCleanRoot = testWhere(
  isAsked && isRoot && ['dpkg-deb', 'help2man', 'mmdebstrap', 'unshare'].every(has),
  needed('root, and the packages dpkg, help2man and mmdebstrap'),
);

withDpkg('the Debian package has its own Node.js, the unit, man pages and the program', (t) => {
  t.timeout(180_000);
  const directory = temporaryDirectory(t);
  const unpacked = path.join(directory, 'unpacked');
  const built = buildDebianPackage(directory);
  const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  const field = (name: string): string =>
    execFileSync('dpkg-deb', ['--field', built, name], { encoding: 'utf8' }).trim();
  t.deepEqual([field('Package'), field('Version')], ['saltbridge', version]);
  execFileSync('dpkg-deb', ['--raw-extract', built, unpacked]);
  for (const file of [
    'usr/lib/systemd/system/saltbridge.service',
    'usr/lib/sysusers.d/saltbridge.conf',
    'usr/lib/tmpfiles.d/saltbridge.conf',
    'etc/logrotate.d/saltbridge',
    'etc/saltbridge/environment',
    'usr/share/man/man1/saltbridge-master.1.gz',
    'usr/share/doc/saltbridge/copyright',
    'usr/share/doc/saltbridge/docs/README.md',
    'DEBIAN/postinst',
    'DEBIAN/postrm',
  ]) {
    t.true(existsSync(path.join(unpacked, file)), file);
  }
  // No other Node.js is in the PATH.
  const run = (...argv: string[]): string =>
    execFileSync(path.join(unpacked, 'usr/bin/saltbridge'), argv, {
      encoding: 'utf8',
      env: { PATH: '/usr/bin:/bin' },
    });
  t.is(run('--version').trim(), version);
  t.regex(run('config', 'show'), /^publish_port: 4505 # default$/m);
  for (const script of ['postinst', 'prerm', 'postrm']) {
    execFileSync('sh', ['-n', path.join(unpacked, 'DEBIAN', script)]);
  }
});

/** Commands on each level of subcommands. */
const commands = ['', '-master', '-key', '-key-accept', '-salt', '-bridge-outbox-retry', '-doctor'];

withDpkg('each command has a man page with its options, and roff finds nothing wrong', (t) => {
  t.timeout(600_000);
  const directory = temporaryDirectory(t);
  execFileSync(`${root}packaging/man-pages`, [`${root}bin/saltbridge`, directory]);
  const pages = readdirSync(directory);
  for (const name of commands) t.true(pages.includes(`saltbridge${name}.1`), name);
  const text = readFileSync(path.join(directory, 'saltbridge-master.1'), 'utf8');
  t.true(text.includes('\\fB\\-d\\fR, \\fB\\-\\-daemon\\fR\n'));
  if (!has('groff')) return;
  const files = pages.map((name) => path.join(directory, name));
  const { stderr } = spawnSync('groff', ['-man', '-Tutf8', '-ww', '-z', ...files], {
    encoding: 'utf8',
  });
  t.is(stderr, '');
});

const withSystemd = testWhere(
  isAsked && isRoot && ['dpkg-deb', 'help2man', 'mmdebstrap', 'systemd-nspawn'].every(has),
  needed('root, and the packages dpkg, help2man, mmdebstrap and systemd-container'),
);

/** Script that runs in the clean root. A line `== NAME` begins each part of its output. */
const life = `set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
part() { echo "== $*"; }
# What packages leave: not what belongs to dpkg, the accounts and this script.
list() {
  find / -xdev \\( -path /proc -o -path /dev -o -path /life -o -path /tmp -o -path '/var/lib/dpkg' \\
    -o -path /var/cache/debconf \\) -prune -o -print | grep -vE '^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|^/var/log/(dpkg|alternatives).log$|^/etc/.pwd.lock$|^/run/adduser$' | sort
}
is_running() { [ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status"; }
live() {
  list >/life/before
  part "$1 install"
  dpkg -i /life/saltbridge.deb
  dpkg-query -W -f '\${Status}\\n' saltbridge
  part "$1 keys"
  stat -c '%U %G %a' /etc/salt/pki/master
  part "$1 run"
  cp /life/master /etc/salt/master
  chown -R salt:salt /etc/salt/pki/master
  saltbridge config check
  pid=$(saltbridge master -d)
  stat -c %U "/proc/$pid"
  saltbridge status --json
  saltbridge salt-key -L
  MANPATH=/usr/share/man test -s /usr/share/man/man1/saltbridge.1.gz
  kill "$pid"
  while is_running "$pid"; do sleep 0.1; done
  part "$1 remove"
  dpkg -r saltbridge
  for it in /usr/bin/saltbridge /usr/lib/saltbridge /etc/saltbridge/environment /var/lib/saltbridge /etc/salt/pki/master/master.pem; do
    if [ -e "$it" ]; then echo "there $it"; else echo "gone $it"; fi
  done
  part "$1 purge"
  dpkg --purge saltbridge
  part "$1 left"
  list >/life/after
  diff /life/before /life/after || true
  part "$1 end"
  rm -rf /etc/salt
}
# Without systemd's programs the scripts make the account by adduser.
for it in systemd-sysusers systemd-tmpfiles; do mv "/usr/bin/$it" "/life/$it"; done
live adduser
deluser --quiet salt
for it in systemd-sysusers systemd-tmpfiles; do mv "/life/$it" "/usr/bin/$it"; done
# Keys that a salt-master of root left.
mkdir -p /etc/salt/pki/master
chmod 0750 /etc/salt/pki/master
live sysusers
`;

/** Returns the lines of each part of the output, by name. */
function partsOf(output: string): (name: string) => string {
  const texts = output.split(/^== /m).slice(1);
  const parts = new Map(
    texts.map((text) => [
      text.slice(0, text.indexOf('\n')),
      text.slice(text.indexOf('\n') + 1).trim(),
    ]),
  );
  return (name) => parts.get(name) ?? '';
}

/**
 * Creates a root file system of Debian with these packages. `place` contains the package to install
 * and a configuration.
 */
async function makeCleanRoot(
  t: ExecutionContext,
  packages: string,
  configuration: readonly string[],
): Promise<{
  readonly clean: string;
  readonly place: string;
  readonly ports: readonly number[];
}> {
  const directory = temporaryDirectory(t);
  const clean = path.join(directory, 'root');
  const options = ['--quiet', '--variant=minbase', `--include=${packages}`, 'bookworm', clean];
  execFileSync('mmdebstrap', options, { stdio: ['ignore', 'ignore', 'pipe'] });
  const place = path.join(clean, 'life');
  execFileSync('mkdir', [place]);
  cpSync(buildDebianPackage(directory), path.join(place, 'saltbridge.deb'));
  const [publish, request] = [await freePort(), await freePort()];
  const lines = [
    ...configuration,
    'interface: 127.0.0.1',
    `publish_port: ${publish}`,
    `ret_port: ${request}\n`,
  ];
  writeFileSync(path.join(place, 'master'), lines.join('\n'));
  return { clean, place, ports: [publish, request] };
}

withCleanRoot(
  'the Debian package is installed in a clean root, runs as its account, and leaves only keys',
  async (t) => {
    t.timeout(600_000);
    const packages = 'systemd-standalone-sysusers,systemd-standalone-tmpfiles,adduser,libstdc++6';
    const { clean, place } = await makeCleanRoot(t, packages, ['user: salt']);
    writeFileSync(path.join(place, 'life.sh'), life);
    // When it ends, all of its processes end too.
    const enter = `mount --bind /dev "$1/dev" && mount -t proc proc "$1/proc" && exec chroot "$1" sh /life/life.sh`;
    const { status, stdout, stderr } = spawnSync(
      'unshare',
      ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', enter, 'sh', clean],
      { encoding: 'utf8', env: { PATH: process.env.PATH } },
    );
    t.is(status, 0, `${stdout}\n${stderr}`);
    const part = partsOf(stdout);
    // Keys never change their owner.
    t.is(part('adduser keys'), 'salt salt 700');
    t.is(part('sysusers keys'), 'root root 750');
    for (const way of ['adduser', 'sysusers']) {
      t.regex(part(`${way} install`), /^install ok installed$/m);
      t.regex(part(`${way} run`), /^salt$/m, 'the master runs as the account of the package');
      t.regex(part(`${way} run`), /^Accepted Keys:$/m);
      t.deepEqual(part(`${way} remove`).match(/^(?:gone|there) .*$/gm), [
        'gone /usr/bin/saltbridge',
        'gone /usr/lib/saltbridge',
        'there /etc/saltbridge/environment',
        'there /var/lib/saltbridge',
        'there /etc/salt/pki/master/master.pem',
      ]);
      const left = part(`${way} left`).match(/^[<>] .*$/gm) ?? [];
      const allowed = /^> \/etc\/salt(?:\/master|\/pki(?:\/master(?:\/.*)?)?)?$/;
      t.deepEqual(
        left.filter((line) => !allowed.test(line)),
        [],
      );
    }
  },
);

/** Script that systemd starts in addition to its own units. It ends the container. */
const probe = `export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
exec >/life/out 2>&1
part() { echo "== $*"; }
until_so() { n=0; until "$@"; do n=$((n + 1)); [ $n -lt 300 ] || return 1; sleep 0.1; done; }
pid() { systemctl show -p MainPID --value saltbridge; }
timeout_is() { [ "$(saltbridge salt-run config.get timeout --out txt)" = "$1" ]; }
part start
dpkg -i /life/saltbridge.deb >/life/dpkg 2>&1 || cat /life/dpkg
cp /life/master /etc/salt/master
systemctl start saltbridge
systemctl is-active saltbridge
systemctl show -p StatusText --value saltbridge
first=$(pid)
stat -c %U "/proc/$first"
saltbridge salt-key -L
part reload
echo 'timeout: 7' >>/etc/salt/master
systemctl reload saltbridge && until_so timeout_is 7 && [ "$(pid)" = "$first" ] && echo taken over
part mistake
echo 'auto_accept: perhaps' >>/etc/salt/master
systemctl reload saltbridge
told() { journalctl -u saltbridge -o cat | grep -q 'master:[0-9]*: auto_accept: found a text'; }
until_so told && systemctl is-active saltbridge
systemctl restart saltbridge
systemctl show -p ExecMainStatus --value saltbridge
sed -i /auto_accept/d /etc/salt/master
systemctl stop saltbridge
systemctl reset-failed saltbridge 2>/dev/null
part restart
systemctl start saltbridge
second=$(pid)
systemctl restart saltbridge
third=$(pid)
systemctl is-active saltbridge
[ "$second" != "$third" ] && echo another process
part killed
kill -9 "$third"
is_back() { [ "$(systemctl is-active saltbridge)" = active ] && [ "$(pid)" != "$third" ]; }
until_so is_back && echo back
part stop
systemctl stop saltbridge
systemctl is-active saltbridge
systemctl show -p Result --value saltbridge
part log
journalctl -u saltbridge -o cat --no-pager
part end
systemctl exit 0
`;

const probeUnit = `[Unit]
Requires=basic.target
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh /life/probe.sh
`;

withSystemd(
  'under a running systemd the unit starts, reloads, restarts, comes back and stops',
  async (t) => {
    t.timeout(600_000);
    const { clean, place, ports } = await makeCleanRoot(t, 'systemd,adduser,libstdc++6', []);
    writeFileSync(path.join(place, 'probe.sh'), probe);
    writeFileSync(path.join(clean, 'etc/systemd/system/probe.service'), probeUnit);
    const boot = ['--quiet', '--register=no', '--keep-unit', '-D', clean, '--boot'];
    const { stderr } = spawnSync('systemd-nspawn', [...boot, '--', '--unit=probe.service'], {
      encoding: 'utf8',
      timeout: 300_000,
    });
    const written = path.join(place, 'out');
    const output = existsSync(written) ? readFileSync(written, 'utf8') : stderr;
    const part = partsOf(output);
    const [state, status, account] = part('start').split('\n');
    t.deepEqual([state, account], ['active', 'salt'], output);
    t.is(status, `Serving minions on ports ${ports.join(' and ')} (zeromq)`);
    t.regex(part('start'), /^Accepted Keys:$/m);
    t.is(part('reload'), 'taken over', output);
    const [kept, ...refused] = part('mistake').split('\n');
    t.is(kept, 'active', 'a mistake at a reload changes nothing');
    t.is(refused.at(-1), '78', 'and ends a start');
    t.is(part('restart'), 'active\nanother process');
    t.is(part('killed'), 'back');
    t.is(part('stop'), 'inactive\nsuccess');
  },
);
