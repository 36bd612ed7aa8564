import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import test, { type ExecutionContext } from 'ava';
import { createServiceNotifier, ServiceReporter } from '../../cli/service/service-manager.ts';
import { createLogger } from '../../master/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { TextStream } from './run-cli.ts';

/** What systemd's end of the socket is: datagrams, each printed as a line of JSON. */
const listener = `
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('"bound"', flush=True)
while True:
    print(json.dumps(s.recv(4096).decode()), flush=True)
`;

const hasPrograms = ['python3', 'systemd-notify'].every((program) => {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
});
const withPrograms = hasPrograms ? test : test.skip;

interface Socket {
  readonly environment: NodeJS.ProcessEnv;
  /** The next message that says something of the service. */
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
      // systemd-notify waits by it until what it said before has been read.
      if (message !== 'BARRIER=1') return message;
    }
  };
  await next();
  return { environment: { ...process.env, NOTIFY_SOCKET: socketPath }, next };
}

withPrograms('the service manager is told what the service says of itself', async (t) => {
  const { environment, next } = await listen(t);
  const notify = createServiceNotifier(createLogger('error', new TextStream()), environment);
  await notify('READY=1', 'STATUS=Serving minions on ports 4505 and 4506');
  const ready = (await next()).split('\n');
  t.true(ready.includes('READY=1'));
  t.true(ready.includes('STATUS=Serving minions on ports 4505 and 4506'));
  await notify('STOPPING=1');
  t.true((await next()).split('\n').includes('STOPPING=1'));
});

test('a service manager that is not there is told in the log, and nothing fails', async (t) => {
  const output = new TextStream();
  const NOTIFY_SOCKET = path.join(temporaryDirectory(t), 'nobody');
  const notify = createServiceNotifier(createLogger('error', output), { NOTIFY_SOCKET, PATH: '' });
  await notify('READY=1');
  t.is(JSON.parse(output.text).msg, 'service manager was not told');
});

test('without a service manager nothing is started', async (t) => {
  const output = new TextStream();
  // There is nothing that could be started.
  await createServiceNotifier(createLogger('error', output), { PATH: '' })('READY=1');
  t.is(output.text, '');
});

test('who does not serve yet, or closes, does not say that it reloads', async (t) => {
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

withPrograms(
  'a master says when it is ready, reads its configuration again, and closes',
  async (t) => {
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
    const program = new URL('../../../bin/saltbridge', import.meta.url).pathname;
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
  },
);
