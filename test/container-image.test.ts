/**
 * The container image is built from the Debian package, and runs with a read-only root file system.
 */

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../bench/free-port.ts';
import { buildDebianPackage } from './helpers/debian-package.ts';
import { blocksRunBy, root } from './helpers/markdown.ts';
import { testWhere } from './helpers/needs.ts';
import { Shell } from './helpers/shell.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

const isAsked = process.env.SALTBRIDGE_PACKAGES !== undefined;
const has = (program: string): boolean => spawnSync(program, ['--version']).error === undefined;
/** Whether runc is needed, because crun does not work if both versions of cgroups are mounted. */
const needsRunc = existsSync('/sys/fs/cgroup/unified');
const tools = ['dpkg-deb', 'help2man', 'mmdebstrap', 'podman', ...(needsRunc ? ['runc'] : [])];
const withPodman = testWhere(
  isAsked && tools.every(has),
  isAsked ? tools.join(', ') : 'npm run campaign -- packages',
);

const engine = ['--cgroup-manager', 'cgroupfs', ...(has('runc') ? ['--runtime', 'runc'] : [])];

function podman(...argv: string[]): string {
  return execFileSync('podman', [...engine, ...argv], { encoding: 'utf8' }).trim();
}

/** Options that containers need if the tests themselves run in a container. */
const podmanHere = `podman() {
  local command=$1; shift
  if [ "$command" = run ]; then
    set -- --network host --cap-drop all --security-opt no-new-privileges --no-healthcheck \\
      --ulimit nofile=1024:1024 --ulimit nproc=5000:5000 "$@"
  fi
  command podman ${engine.join(' ')} "$command" "$@"
}`;

withPodman(
  'the container image runs a master under any user id, with a read-only root',
  async (t) => {
    t.timeout(600_000);
    const directory = temporaryDirectory(t);
    const made = buildDebianPackage(directory);
    const output = path.dirname(made);
    const image = execFileSync(`${root}packaging/build-image`, [made, output], {
      encoding: 'utf8',
    }).trim();
    const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
    const name = `localhost/saltbridge:${version}`;
    const [publish, request] = [await freePort(), await freePort()];
    const config = `interface: 127.0.0.1\npublish_port: ${publish}\nret_port: ${request}\n`;
    mkdirSync(path.join(output, 'etc'));
    writeFileSync(path.join(output, 'etc/master'), config);
    const container = `saltbridge-test-${process.pid}`;
    t.teardown(() => {
      podman('rm', '--force', '--ignore', container);
      podman('volume', 'rm', '--force', `${container}-pki`, `${container}-state`);
    });
    const [block] = blocksRunBy('test/container-image.test.ts');
    const { text = '', line = 0, document = '' } = block ?? {};
    const typed = text
      .replaceAll('VERSION', version)
      .replace('_amd64.', `_${path.basename(image).split('_')[2]?.split('.')[0]}.`)
      .replace('--name master', `--name ${container}`)
      .replace('exec master', `exec ${container}`)
      .replaceAll(/-v (pki|state):/g, `-v ${container}-$1:`);
    const shell = new Shell(t, output, process.env);
    await shell.type(podmanHere);
    const { failures, output: printed } = await shell.type(typed, 300_000);
    t.deepEqual(failures, [], `${document}:${line}\n${printed}`);
    t.regex(printed, /^Accepted Keys:$/m);
    const inside = (...argv: string[]) =>
      spawnSync('podman', [...engine, 'exec', container, ...argv]);
    const [check] = JSON.parse(podman('image', 'inspect', name));
    const { Test: healthcheck } =
      check.HealthCheck ?? check.Healthcheck ?? check.Config.Healthcheck;
    t.deepEqual(healthcheck, ['CMD', 'saltbridge', 'status', '--json']);
    let status = inside('saltbridge', 'status', '--json');
    for (let tries = 0; tries < 100 && status.status !== 0; tries++) {
      await sleep(200);
      status = inside('saltbridge', 'status', '--json');
    }
    t.is(status.status, 0, `${status.stderr}${podman('logs', container)}`);
    const logs = spawnSync('podman', [...engine, 'logs', container], { encoding: 'utf8' });
    const said = logs.stdout + logs.stderr;
    t.notRegex(
      said,
      /could not be|"level":[456]0/,
      'nothing is wrong with what it may not write to',
    );
    t.is(inside('node', '-p', 'process.getuid()').stdout.toString().trim(), '999');
    t.not(inside('sh', '-c', 'true').status, 0, 'there is no shell');
    t.not(inside('node', '-e', "fs.writeFileSync('/usr/x', '')").status, 0);
    await new Promise<void>((resolve, reject) => {
      const socket = connect(request, '127.0.0.1', () => {
        socket.destroy();
        resolve();
      }).on('error', reject);
    });
    t.is(podman('stop', '--time', '20', container), container);
    t.is(podman('inspect', '--format', '{{.State.ExitCode}}', container), '0');
  },
);
