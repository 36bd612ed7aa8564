/**
 * A master under load that is killed (SIGKILL) at seeded moments and started again. Judge is the
 * log of this process, which writes down each return that was acknowledged to one of its minions.
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

/** What a series of kills came to. */
export interface CrashFigures {
  readonly kills: number;
  readonly killsWhileStarting: number;
  readonly jobs: number;
  /** Returns that were acknowledged to a minion. */
  readonly acknowledged: number;
  /** Of those, not in the store after a restart. Must be 0. */
  readonly lost: number;
  /** Times that a real minion would have signed in again. Must be 0. */
  readonly signIns: number;
  /** Rows that do not fit together in the end. Must be 0. */
  readonly problems: number;
  readonly longestRestartMs: number;
}

export interface CrashOptions {
  readonly kills: number;
  readonly seed: number;
  readonly minions: number;
  /** Told after each kill. */
  readonly onKill?: (done: number) => void;
}

const keyCount = 4;
const longestLifeMs = 500;
const publishers = 2;
/** As long as a start takes, about: some kills come into it. */
const startMs = 600;

/** Kills, starts again and looks; see {@link CrashFigures}. */
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
  #tellLoad: () => void = () => {};
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
    this.#tellLoad();
  }

  /** The next return that is acknowledged: a kill without any under way would show nothing. */
  #underLoad(): Promise<void> {
    return new Promise((resolve) => {
      this.#tellLoad = resolve;
    });
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    for (const minion of this.#minions) minion.stop();
    await this.#master.kill();
  }

  /** One job after the other; those that meet no master are tried again. */
  async #publish(): Promise<void> {
    const { jobs } = this.#api();
    while (!this.#isOver) {
      try {
        const { jid } = await jobs.publish({ tgt: '*', fun: 'test.ping' });
        this.#jids.push(jid);
      } catch {
        // It was killed while it was asked, or has not started yet.
      }
      await sleep(10);
    }
  }

  /** What the log has, and the master has not; looks at what was not looked at before. */
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
