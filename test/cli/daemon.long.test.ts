import {
  type ChildProcess,
  type ChildProcessWithoutNullStreams,
  execFile,
  execFileSync,
  spawn,
} from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { startDaemon } from '#cli/commands/start-daemon.ts';
import { CommandError } from '#cli/errors.ts';
import { createLogger } from '#master';
import { createServiceNotifier, ServiceReporter } from '#server/process/service-manager.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { TextStream } from './run-cli.ts';

/** A program that answers `status` on the socket in its arguments, like a master. */
const answeringProgram = `
import { createServer } from 'node:http';
console.log('started');
createServer((request, response) => {
  response.end(JSON.stringify({ result: { pid: process.pid } }));
}).listen(process.argv[2]);
`;

interface Place {
  readonly program: string;
  readonly socket: string;
  readonly logFile: string;
}

async function makePlace(t: ExecutionContext, source: string): Promise<Place> {
  const folder = await mkdtemp(path.join(tmpdir(), 'saltbridge-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const program = path.join(folder, 'program.mjs');
  await writeFile(program, source);
  return {
    program,
    socket: path.join(folder, 'socket'),
    logFile: path.join(folder, 'log', 'master'),
  };
}

test('a daemon counts as started when its own socket answers, and writes to its log', async (t) => {
  const { program, socket, logFile } = await makePlace(t, answeringProgram);
  const pid = await startDaemon([program, socket], { socket, logFile });
  t.teardown(() => process.kill(pid));
  t.not(pid, process.pid);
  t.is(await readFile(logFile, 'utf8'), 'started\n');
});

test('a daemon that ends early is reported at once, with its exit code and log', async (t) => {
  const { program, socket, logFile } = await makePlace(t, 'process.exit(64);');
  const error = await t.throwsAsync(startDaemon([program], { socket, logFile }), {
    instanceOf: CommandError,
    code: 'ERR_MASTER_NOT_READY',
  });
  t.is(error?.message, `the master did not start: its process ended with 64; see ${logFile}`);
});

test('the reason of a daemon that ends is reported', async (t) => {
  const source = "console.error('{}\\nsaltbridge: port 4505 is taken'); process.exitCode = 69;";
  const { program, socket, logFile } = await makePlace(t, source);
  const error = await t.throwsAsync(startDaemon([program], { socket, logFile }));
  t.is(
    error?.message,
    `the master did not start: its process ended with 69: port 4505 is taken; see ${logFile}`,
  );
});

test('another master on the same socket is not mistaken for the started one', async (t) => {
  const { program, socket, logFile } = await makePlace(t, answeringProgram);
  const other = await startDaemon([program, socket], { socket, logFile });
  t.teardown(() => process.kill(other));
  await t.throwsAsync(startDaemon([program, socket], { socket, logFile }), {
    code: 'ERR_MASTER_NOT_READY',
  });
});

/** A program in the place of systemd: it prints each datagram on its socket as a line of JSON. */
const listener = `
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('"bound"', flush=True)
while True:
    print(json.dumps(s.recv(4096).decode()), flush=True)
`;

import { testWhere } from '../helpers/needs.ts';

const hasPrograms = ['python3', 'systemd-notify'].every((program) => {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
});
const withPrograms = testWhere(hasPrograms, 'the packages python3 and systemd');

interface Socket {
  readonly environment: NodeJS.ProcessEnv;
  /** Returns the next message about the service. */
  readonly next: () => Promise<string>;
}

async function listen(t: ExecutionContext): Promise<Socket> {
  const socketPath = path.join(temporaryDirectory(t), 'notify');
  const child: ChildProcess = spawn('python3', ['-c', listener, socketPath], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill());
  const { stdout } = child;
  if (stdout === null) throw new TypeError('no standard output');
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    for (;;) {
      const { value } = await lines.next();
      const message: string = JSON.parse(value);
      // systemd-notify uses this message to wait until its earlier messages were read.
      if (message !== 'BARRIER=1') return message;
    }
  };
  await next();
  return { environment: { ...process.env, NOTIFY_SOCKET: socketPath }, next };
}

withPrograms('the service manager receives the notifications of the service', async (t) => {
  const { environment, next } = await listen(t);
  const notify = createServiceNotifier(createLogger('error', new TextStream()), environment);
  await notify('READY=1', 'STATUS=Serving minions on ports 4505 and 4506');
  const ready = (await next()).split('\n');
  t.true(ready.includes('READY=1'));
  t.true(ready.includes('STATUS=Serving minions on ports 4505 and 4506'));
  await notify('STOPPING=1');
  t.true((await next()).split('\n').includes('STOPPING=1'));
});

test('a missing service manager is logged, and nothing fails', async (t) => {
  const output = new TextStream();
  const NOTIFY_SOCKET = path.join(temporaryDirectory(t), 'nobody');
  const notify = createServiceNotifier(createLogger('error', output), { NOTIFY_SOCKET, PATH: '' });
  await notify('READY=1');
  t.regex(JSON.parse(output.text).msg, /cannot notify systemd of the state of the master/);
});

test('without a service manager no notification is sent', async (t) => {
  const output = new TextStream();
  // The program does not exist.
  await createServiceNotifier(createLogger('error', output), { PATH: '' })('READY=1');
  t.is(output.text, '');
});

test('a service that is not ready yet, or is closing, does not report a reload', async (t) => {
  const told: (string | undefined)[] = [];
  const service = new ServiceReporter(async (first) => {
    told.push(first);
  });
  const reloads: number[] = [];
  const reload = (): Promise<void> => service.reload(async () => void reloads.push(told.length));
  await reload();
  await service.ready('serving');
  await reload();
  await service.reload(() => service.stopping());
  await reload();
  t.deepEqual(told, ['READY=1', 'RELOADING=1', 'READY=1', 'RELOADING=1', 'STOPPING=1']);
  t.deepEqual(reloads, [0, 2, 5]);
});

withPrograms('a master logs when it is ready, reloads its configuration, and closes', async (t) => {
  const { environment, next } = await listen(t);
  const root = temporaryDirectory(t);
  const config = path.join(root, 'master');
  const saltbridge = { state_dir: '/state', socket: '/run/s.sock' };
  writeFileSync(
    config,
    JSON.stringify({
      root_dir: root,
      interface: '127.0.0.1',
      ret_port: 0,
      publish_port: 0,
      pki_dir: '/pki',
      sock_dir: '/run',
      cachedir: '/cache',
      log_file: '/log',
      pidfile: '/pid',
      saltbridge,
    }),
  );
  const program = new URL('../../bin/saltbridge', import.meta.url).pathname;
  const master = spawn(process.execPath, [program, 'master', '-c', root], {
    env: environment,
    stdio: 'ignore',
  });
  t.teardown(() => master.kill('SIGKILL'));
  const ready = await next();
  t.regex(ready, /^READY=1$/m);
  t.regex(ready, /^STATUS=Serving minions on ports \d+ and \d+ \(zeromq\)$/m);
  master.kill('SIGHUP');
  const reloading = await next();
  t.regex(reloading, /^RELOADING=1$/m);
  t.regex(reloading, /^MONOTONIC_USEC=\d+$/m);
  t.regex(await next(), /^READY=1$/m);
  master.kill('SIGTERM');
  t.regex(await next(), /^STOPPING=1$/m);
  const [code] = await once(master, 'exit');
  t.is(code, 0);
});

const termination = new URL('../../server/process/signals.ts', import.meta.url);
const interruption = new URL('../../cli/interruption.ts', import.meta.url);

/**
 * Starts a process that reports when it waits and when it receives SIGTERM, but does not end by
 * itself.
 */
function spawnWaiting(
  t: ExecutionContext,
  signals: URL,
  wait: string,
): ChildProcessWithoutNullStreams {
  const source = `
    import * as signals from ${JSON.stringify(signals.href)};
    setInterval(() => {}, 1_000_000);
    ${wait}
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', source]);
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

test('the first SIGTERM closes the master, and the second one ends the process', async (t) => {
  const child = spawnWaiting(
    t,
    termination,
    `const terminated = signals.terminationSignal();
     console.log('waiting');
     console.log(await terminated);`,
  );
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  t.is((await lines.next()).value, 'waiting');
  child.kill('SIGTERM');
  t.is((await lines.next()).value, 'SIGTERM');
  child.kill('SIGTERM');
  t.deepEqual(await once(child, 'exit'), [143, null]);
});

test('the first Ctrl-C interrupts, the second one ends', async (t) => {
  const child = spawnWaiting(
    t,
    interruption,
    `const interrupted = signals.interruptionSignal();
     interrupted.addEventListener('abort', () => console.log('interrupted'));
     console.log('waiting');`,
  );
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  t.is((await lines.next()).value, 'waiting');
  child.kill('SIGINT');
  t.is((await lines.next()).value, 'interrupted');
  child.kill('SIGINT');
  t.deepEqual(await once(child, 'exit'), [130, null]);
});

// These tests check that a process that gives up root keeps no rights of root. Only root can run
// them.

const asRoot = testWhere(process.getuid?.() === 0, 'root');
const run = promisify(execFile);

asRoot(
  "a process that gives up root keeps none of root's groups, and cannot regain them",
  async (t) => {
    const module = new URL('../../server/process/account.ts', import.meta.url);
    const program = `
    import { becomeAccount } from ${JSON.stringify(module.href)};
    process.setgroups([0, 4, 65534]);
    becomeAccount({ name: 'nobody', uid: 65534, gid: 65534 });
    let isBack = true;
    try { process.setuid(0); } catch { isBack = false; }
    console.log(JSON.stringify([process.getuid(), process.getgid(), process.getgroups(), isBack]));
  `;
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], {
      cwd: '/',
    });
    t.deepEqual(JSON.parse(stdout), [65534, 65534, [65534], false]);
  },
);
