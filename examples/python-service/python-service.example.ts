import { execFile } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { removeSite, type Site, writeSite } from '../control-plane.ts';
import { EmbeddedMinions } from '../embedded-minions.ts';
import { type Example, program, type Step } from '../example.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const sources = path.join(root, 'examples/python-service');
const saltbridge = path.join(root, 'bin/saltbridge');
const user = 'deployer';

/**
 * A service that does not import the library. It calls a separate `saltbridge master` over HTTPS.
 */
export const pythonService: Example = {
  description: 'a Python service that uses `saltbridge master`, with commands and a plan',
  needs: () => [program('openssl', 'openssl'), program('python3', 'python3')],
  run: async (step) => {
    const site = await writeSite({ sources, users: [user] });
    const minions = new EmbeddedMinions();
    const master = new MasterProcess(site);
    try {
      await runSteps(step, site, master, minions);
    } finally {
      await minions.close();
      await master.close();
      removeSite(site);
    }
  },
};

async function runSteps(
  step: Step,
  site: Site,
  master: MasterProcess,
  minions: EmbeddedMinions,
): Promise<void> {
  await step('start `saltbridge master -d`', () => master.start());
  /** Ids of the minions whose shop was restarted, in order. */
  const restarted: string[] = [];
  await step(
    'two web servers send their keys, and `saltbridge key accept` accepts them',
    async () => {
      const started = await Promise.all(
        ['web1', 'web2'].map((id) =>
          minions.start(site, id, {
            'service.restart': () => {
              restarted.push(id);
              return true;
            },
            'service.status': () => true,
          }),
        ),
      );
      const text = await master.run('key', 'accept', '-y', 'web*');
      await Promise.all(started.map(({ connected }) => connected));
      return text.trim().split('\n');
    },
    (lines) => lines.join().includes('web1') && lines.join().includes('web2'),
  );
  await step(
    'the service lists the commands that it may call',
    () => callService(site, ['commands']),
    (answer) => JSON.stringify(answer) === '["web.restart","web.wait"]',
  );
  await step(
    'it restarts one web server; with the same idempotency key, a second call returns the same run',
    async () => [
      await callService(site, ['restart', 'web1', 'release-7']),
      await callService(site, ['restart', 'web1', 'release-7']),
    ],
    ([first, second]) =>
      JSON.stringify(first) === JSON.stringify(second) && restarted.join() === 'web1',
  );
  await step(
    'a plan restarts the web servers one after the other',
    () => callService(site, ['roll', 'web1', 'web2']),
    (answer) =>
      JSON.stringify(answer).includes('"wait":"succeeded"') &&
      restarted.join() === 'web1,web1,web2',
  );
  await step(
    'a command on a minion that no rule names is rejected',
    () => callService(site, ['restart', 'db1', 'release-8']),
    (answer) => JSON.stringify(answer).includes('ERR_COMMAND_DENIED'),
  );
  await step(
    'a log-in with a wrong password fails with its own error',
    () => callService({ ...site, passwords: new Map([[user, 'wrong']]) }, ['commands']),
    (answer) => JSON.stringify(answer).includes(`log-in of ${user}`),
  );
}

/** Runs the service program, and returns its output. */
async function callService(
  { url, certificate, passwords }: Site,
  argv: readonly string[],
): Promise<unknown> {
  const service = path.join(sources, 'service.py');
  const env = {
    PATH: process.env.PATH ?? '',
    PYTHONPATH: path.join(root, 'clients/python'),
    PYTHONDONTWRITEBYTECODE: '1',
    SALTBRIDGE_URL: url,
    SALTBRIDGE_CA: certificate,
    SALTBRIDGE_USER: user,
    SALTBRIDGE_PASSWORD: passwords.get(user),
  };
  return await new Promise((resolve, reject) => {
    // A program that fails is also a result.
    execFile('python3', [service, ...argv], { env }, (error, stdout) => {
      if (stdout === '') reject(error ?? new Error('service.py did not print a result'));
      else resolve(JSON.parse(stdout));
    });
  });
}

/** Runs `saltbridge master -d`, and commands for this master. */
class MasterProcess {
  readonly #site: Site;
  #pid: number | undefined;

  constructor(site: Site) {
    this.#site = site;
  }

  async start(): Promise<void> {
    this.#pid = Number(await this.run('master', '-d'));
  }

  /**
   * Runs a command.
   * @returns its output
   * @throws Error that contains its error output
   */
  async run(...argv: readonly string[]): Promise<string> {
    const all = [saltbridge, ...argv, '-c', this.#site.directory];
    return (await promisify(execFile)(process.execPath, all)).stdout;
  }

  async close(): Promise<void> {
    const pid = this.#pid;
    if (pid === undefined) return;
    process.kill(pid, 'SIGTERM');
    while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
