/**
 * Measures the processor time that commands and the library need to start, from the package and
 * from the checkout.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createMinion, dialZeromq, openMinionKeys } from '#minion-protocol';
import { installPacked } from '../test/helpers/packed-project.ts';
import { freePort } from './free-port.ts';
import { killChild } from './kill-child.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const runs = 10;
/** Length of a clock tick in seconds. Linux counts processor time in hundredths of a second. */
const secondsPerTick = 0.01;

/** One row of the table. */
interface StartFigure {
  readonly name: string;
  readonly cpuSeconds: number;
  /** Largest resident memory, in bytes. */
  readonly memoryBytes?: number;
}

/** Measures the checkout, or the unpacked package. */
export async function benchStart(print: (line: string) => void): Promise<void> {
  const project = mkdtempSync(path.join(tmpdir(), 'sb-start-'));
  try {
    writeFileSync(path.join(project, 'package.json'), '{"type": "module"}');
    installPacked(project, { withTypeScript: false });
    const packed = path.join(project, 'node_modules', 'saltbridge');
    for (const [name, folder] of [
      ['package', packed],
      ['checkout', root],
    ] as const) {
      const library = path.join(
        folder,
        name === 'package' ? 'dist/saltbridge.js' : 'exports/saltbridge.ts',
      );
      print(`${name}:`);
      for (const { name: what, cpuSeconds, memoryBytes } of await figuresOf(folder, library)) {
        const memory = memoryBytes === undefined ? '' : `, ${Math.round(memoryBytes / 1e6)} MB`;
        print(`  ${what.padEnd(28)} ${cpuSeconds.toFixed(2)} s${memory}`);
      }
    }
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

async function figuresOf(folder: string, library: string): Promise<readonly StartFigure[]> {
  const program = path.join(folder, 'bin', 'saltbridge');
  const directory = mkdtempSync(path.join(tmpdir(), 'sb-start-'));
  try {
    const requestPort = await writeConfiguration(directory);
    const measure = async (name: string, ...argv: readonly string[]): Promise<StartFigure> => ({
      name,
      cpuSeconds: await cpuOfRuns(argv),
    });
    const startup = await cpuOfMaster(program, directory);
    const master = await startMaster(program, directory);
    const minion = createMinion({
      id: 'web1',
      transport: dialZeromq({ host: '127.0.0.1', requestPort }),
      keys: await openMinionKeys(path.join(directory, 'minion')),
    });
    try {
      await minion.start();
      return [
        await measure('node -e 0', '-e', '0'),
        await measure('saltbridge --version', program, '--version'),
        await measure('saltbridge --help', program, '--help'),
        await measure('saltbridge completion bash', program, 'completion', 'bash'),
        await measure('saltbridge status', program, 'status', '-c', directory),
        await measure(
          'saltbridge salt test.ping',
          program,
          'salt',
          '-c',
          directory,
          'web1',
          'test.ping',
        ),
        { name: 'saltbridge master (ready)', cpuSeconds: startup },
        {
          ...(await measure('import saltbridge', '-e', `import('${library}')`)),
          memoryBytes: await memoryOf(library),
        },
      ];
    } finally {
      await minion.stop();
      await killChild(master);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * Writes the configuration of a master.
 * @returns the request port for minions
 */
async function writeConfiguration(directory: string): Promise<number> {
  const [requestPort, publishPort] = [await freePort(), await freePort()];
  writeFileSync(
    path.join(directory, 'master'),
    `root_dir: ${directory}
interface: 127.0.0.1
ret_port: ${requestPort}
publish_port: ${publishPort}
pki_dir: /pki
sock_dir: /run
cachedir: /cache
log_file: /log
log_level: info
auto_accept: true
saltbridge:
  state_dir: ${directory}/state
  socket: ${directory}/s.sock
`,
  );
  return requestPort;
}

/**
 * Returns the mean processor time of several runs. The first run is ignored, because it may fill
 * the compile cache.
 */
async function cpuOfRuns(argv: readonly string[]): Promise<number> {
  await run(argv);
  const before = cpuOfChildren();
  for (let count = 0; count < runs; count += 1) await run(argv);
  return (cpuOfChildren() - before) / runs;
}

async function run(argv: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, argv, { stdio: 'ignore', env: commandEnvironment() });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`node ${argv.join(' ')} ended with ${code}`);
}

/**
 * Returns the environment without the compile cache that scripts of the checkout set.
 * bin/saltbridge has its own cache.
 */
function commandEnvironment(): NodeJS.ProcessEnv {
  const { NODE_COMPILE_CACHE: _, ...environment } = process.env;
  return environment;
}

async function startMaster(program: string, directory: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [program, 'master', '-c', directory], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: commandEnvironment(),
  });
  for await (const line of createInterface({ input: child.stderr })) {
    if (line.includes('"master started"')) break;
  }
  child.stderr.resume();
  return child;
}

/**
 * Returns the median processor time until a master serves minions. The first start, which creates
 * the keys and the store, is ignored.
 */
async function cpuOfMaster(program: string, directory: string): Promise<number> {
  const seconds: number[] = [];
  for (let count = 0; count < 6; count += 1) {
    const child = await startMaster(program, directory);
    const [user = 0, system = 0] = statOf(child.pid ?? 0).slice(11, 13);
    if (count > 0) seconds.push((user + system) * secondsPerTick);
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  return seconds.sort((a, b) => a - b)[2] ?? Number.NaN;
}

async function memoryOf(library: string): Promise<number> {
  const script = `await import('${library}'); console.log(process.resourceUsage().maxRSS)`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: commandEnvironment(),
  });
  let output = '';
  for await (const text of child.stdout.setEncoding('utf8')) output += text;
  return Number(output) * 1024;
}

function cpuOfChildren(): number {
  const [user = 0, system = 0] = statOf('self').slice(13, 15);
  return (user + system) * secondsPerTick;
}

/** Returns the numeric fields after the program name in /proc/<pid>/stat [proc(5)]. */
function statOf(pid: number | 'self'): number[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
}
