/**
 * Kills a master under load with SIGKILL at random moments (from a seed) and starts it again. This
 * process logs each return that the master has acknowledged to a minion, and compares this log with
 * the master's store.
 */
import { appendFileSync, openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectMaster } from '#client';
import { inspectStore } from '#store';
import { freePort } from '../free-port.ts';
import { acceptAll } from '../swarm/accept.ts';
import { importKey, makeKeyTexts, swarmId } from '../swarm/keys.ts';
import type { Known } from '../swarm/minion.ts';
import { LastingMinion } from './lasting-minion.ts';
import { MasterProcess } from './master-process.ts';
import { createRandom } from './setting.ts';

/** Result of a series of kills. */
export interface CrashFigures {
  readonly kills: number;
  readonly killsWhileStarting: number;
  readonly jobs: number;
  /** Number of returns that the master acknowledged to a minion. */
  readonly acknowledged: number;
  /** Number of acknowledged returns that are not in the store after a restart. Must be 0. */
  readonly lost: number;
  /** Number of times that a real minion would have had to sign in again. Must be 0. */
  readonly signIns: number;
  /** Number of inconsistencies in the store at the end. Must be 0. */
  readonly problems: number;
  readonly longestRestartMs: number;
}

export interface CrashOptions {
  readonly kills: number;
  readonly seed: number;
  readonly minions: number;
  /** Called after each kill, with the number of kills so far. */
  readonly onKill?: (done: number) => void;
}

const keyCount = 4;
const longestLifeMs = 500;
const publishers = 2;
/**
 * Approximate duration of a start, in milliseconds. With this value, some kills happen during a
 * start.
 */
const startMs = 600;

/** Runs a series of kills. See {@link CrashFigures} for the checks. */
export async function benchCrash(options: CrashOptions): Promise<CrashFigures> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-crash-'));
  const trial = await Trial.start(rootDir, options);
  try {
    return await trial.run();
  } finally {
    await trial.stop();
    await rm(rootDir, { recursive: true, force: true });
  }
}

class Trial {
  readonly #options: CrashOptions;
  readonly #rootDir: string;
  readonly #master: MasterProcess;
  readonly #minions: LastingMinion[] = [];
  readonly #log: number;
  readonly #logFile: string;
  readonly #jids: string[] = [];
  readonly #seen = new Set<string>();
  #lost = 0;
  #resolveLoad: () => void = () => {};
  #signIns = 0;
  #isOver = false;

  private constructor(rootDir: string, options: CrashOptions) {
    this.#options = options;
    this.#rootDir = rootDir;
    this.#master = new MasterProcess(rootDir);
    this.#logFile = path.join(rootDir, 'acknowledged');
    this.#log = openSync(this.#logFile, 'a');
  }

  static async start(rootDir: string, options: CrashOptions): Promise<Trial> {
    const trial = new Trial(rootDir, options);
    const [requestPort, publishPort] = [await freePort(), await freePort()];
    await writeConfig(rootDir, requestPort, publishPort);
    const keys = await makeKeyTexts(keyCount);
    await acceptAll(path.join(rootDir, 'pki'), options.minions, keys);
    trial.#master.spawn();
    await trial.#master.ready();
    let known: Known | undefined;
    const imported = keys.map(importKey);
    for (let index = 0; index < options.minions; index += 1) {
      const [key] = imported.slice(index % keyCount);
      if (key === undefined) throw new Error('no key');
      const minion = new LastingMinion({
        id: swarmId(index),
        index,
        key,
        requestPort,
        publishPort,
        onAcknowledged: (jid, id) => trial.#onAcknowledged(jid, id),
        onOutdated: (id, why) => trial.#onOutdated(id, why),
      });
      trial.#minions.push(minion);
      known = await minion.signIn(known);
      await minion.listen();
    }
    return trial;
  }

  async run(): Promise<CrashFigures> {
    const random = createRandom(this.#options.seed);
    const publishing = Promise.all(Array.from({ length: publishers }, () => this.#publish()));
    let killsWhileStarting = 0;
    let longestRestartMs = 0;
    for (let kill = 0; kill < this.#options.kills; kill += 1) {
      await this.#underLoad();
      await sleep(random() * longestLifeMs);
      await this.#master.kill();
      const restartedAt = performance.now();
      this.#master.spawn();
      if (random() < 0.1) {
        await sleep(random() * startMs);
        await this.#master.kill();
        killsWhileStarting += 1;
        this.#master.spawn();
      }
      await this.#master.ready();
      longestRestartMs = Math.max(longestRestartMs, performance.now() - restartedAt);
      this.#lost += await this.#countLost();
      this.#options.onKill?.(kill + 1);
    }
    this.#isOver = true;
    await publishing;
    this.#seen.clear();
    const lost = Math.max(this.#lost, await this.#countLost());
    await this.#master.kill();
    const { problems } = await inspectStore(path.join(this.#rootDir, 'state', 'store'));
    return {
      kills: this.#options.kills,
      killsWhileStarting,
      jobs: this.#jids.length,
      acknowledged: readLog(this.#logFile).length,
      lost,
      signIns: this.#signIns,
      problems: problems.length,
      longestRestartMs,
    };
  }

  #onAcknowledged(jid: string, id: string): void {
    appendFileSync(this.#log, `${jid} ${id}\n`);
    this.#resolveLoad();
  }

  /**
   * Resolves when the next return is acknowledged, because a kill without load would not test
   * anything.
   */
  #underLoad(): Promise<void> {
    return new Promise((resolve) => {
      this.#resolveLoad = resolve;
    });
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    for (const minion of this.#minions) minion.stop();
    await this.#master.kill();
  }

  /** Publishes jobs, one after the other. If no master is running, tries again. */
  async #publish(): Promise<void> {
    const { jobs } = this.#api();
    while (!this.#isOver) {
      try {
        const { jid } = await jobs.publish({ tgt: '*', fun: 'test.ping' });
        this.#jids.push(jid);
      } catch {
        // The master was killed during the call, or has not started yet.
      }
      await sleep(10);
    }
  }

  /**
   * Counts the returns in the log that the master does not have. Each return is checked only once.
   */
  async #countLost(): Promise<number> {
    const byJob = new Map<string, string[]>();
    for (const [jid, id] of readLog(this.#logFile)) {
      if (this.#seen.has(`${jid} ${id}`)) continue;
      this.#seen.add(`${jid} ${id}`);
      byJob.set(jid, [...(byJob.get(jid) ?? []), id]);
    }
    const lost = await Promise.all(
      Array.from(byJob, async ([jid, ids]) => {
        const { returns } = await this.#api().jobs.show(jid);
        const kept = new Set(returns.map(({ minion }) => minion));
        return ids.filter((id) => !kept.has(id)).length;
      }),
    );
    return lost.reduce((sum, count) => sum + count, 0);
  }

  #api(): ReturnType<typeof connectMaster> {
    return connectMaster({ socketPath: path.join(this.#rootDir, 'run', 's.sock') });
  }

  #onOutdated(id: string, why: string): void {
    this.#signIns += 1;
    process.stderr.write(`${id}: ${why}\n`);
  }
}

function readLog(file: string): [jid: string, id: string][] {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.slice(0, -1).map((line) => {
    const [jid = '', id = ''] = line.split(' ');
    return [jid, id];
  });
}

async function writeConfig(
  rootDir: string,
  requestPort: number,
  publishPort: number,
): Promise<void> {
  const config = {
    root_dir: rootDir,
    interface: '127.0.0.1',
    ret_port: requestPort,
    publish_port: publishPort,
    pki_dir: '/pki',
    sock_dir: '/run',
    cachedir: '/cache',
    log_file: '/log',
    pidfile: '/pid',
    log_level: 'info',
    saltbridge: { state_dir: '/state', socket: '/run/s.sock' },
  };
  await writeFile(path.join(rootDir, 'master'), JSON.stringify(config));
}
