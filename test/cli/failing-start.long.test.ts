/** `saltbridge master` when it cannot start: it ends and prints the reason. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import { freePort } from '../../bench/free-port.ts';
import { until, within } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { canMount, mountSmallDisk } from '../helpers/small-disk.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));
const onSmallDisk = testWhere(canMount, 'root, who may mount a tmpfs');
const onLinux = testWhere(process.platform === 'linux', 'Linux');

interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Last line on standard error. */
  readonly reason: string;
}

interface Started {
  readonly ended: Promise<End>;
  terminate(): void;
}

/** Starts a master whose files are all below `root`. It is killed at the end of the test. */
async function startBelow(t: ExecutionContext, root: string): Promise<Started> {
  const directory = temporaryDirectory(t);
  const [requestPort, publishPort] = [await freePort(), await freePort()];
  const configuration = `root_dir: ${root}
interface: 127.0.0.1
ret_port: ${requestPort}
publish_port: ${publishPort}
pki_dir: /pki
sock_dir: /run
cachedir: /cache
log_file: ${directory}/log
pidfile: ${directory}/pid
saltbridge:
  state_dir: ${root}/state
`;
  writeFileSync(path.join(directory, 'master'), configuration);
  const child = spawn(process.execPath, [program, 'master', '-c', directory], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = async (): Promise<End> => {
    const [[code, signal], output] = await Promise.all([once(child, 'exit'), text(child.stderr)]);
    return { code, signal, reason: output.trimEnd().split('\n').at(-1) ?? '' };
  };
  return { ended: within('the end', ended()), terminate: () => child.kill('SIGTERM') };
}

for (const kilobytes of [4, 20, 60]) {
  onSmallDisk(
    `with ${kilobytes} kB of free disk space a master does not start, and reports the reason`,
    async (t) => {
      const disk = mountSmallDisk(t, 1);
      disk.fill(kilobytes * 1024);
      const { code, signal, reason } = await (await startBelow(t, disk.directory)).ended;
      t.is(signal, null);
      t.true(code === 69 || code === 73, `${code}`);
      t.regex(reason, /disk is full|no space left on device|disk of the store is full/);
    },
  );
}

onSmallDisk(
  'on a read-only file system a master does not start, and reports the reason',
  async (t) => {
    const disk = mountSmallDisk(t, 1);
    disk.makeReadOnly();
    const { code, reason } = await (await startBelow(t, disk.directory)).ended;
    t.is(code, 73);
    t.regex(reason, /^saltbridge: the master cannot start: .*state: read-only file system/);
  },
);

onLinux(
  'below a directory without write permission a master does not start, and reports the reason',
  async (t) => {
    const { code, reason } = await (await startBelow(t, '/proc/nope')).ended;
    t.is(code, 73);
    t.is(
      reason,
      'saltbridge: the master cannot start: /proc/nope: no such file or directory (ENOENT)',
    );
  },
);

onLinux('a start that waits for a file without end is ended by SIGTERM', async (t) => {
  const root = temporaryDirectory(t);
  mkdirSync(path.join(root, 'state'), { mode: 0o700 });
  const pipe = path.join(root, 'state', 'seal.key');
  execFileSync('mkfifo', [pipe]);
  const master = await startBelow(t, root);
  // The store is opened first. When its lock file exists, the start is waiting for the pipe.
  await until('the start to wait', () => existsSync(path.join(root, 'state', 'store', 'data.mdb')));
  master.terminate();
  // Nothing is written to the pipe, so a start that waited for it would never end.
  const { code, signal } = await master.ended;
  t.true(signal === 'SIGTERM' || code === 0, `${signal} ${code}`);
});
