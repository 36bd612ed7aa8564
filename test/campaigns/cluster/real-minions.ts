/** Real minions of the campaign. Each has three masters and gets a job every two seconds. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MasterApi } from '#master';
import { createJidSource } from '#minion-protocol';
import { eventually } from '../../interop/eventually.ts';
import { RealMinion } from '../../interop/real-minion.ts';
import { HistoryFile } from './history.ts';
import type { Site } from './site.ts';

const pauseMs = 2000;

export class RealMinions {
  readonly #minions: readonly RealMinion[];
  readonly #history: HistoryFile;
  readonly #nextJid = createJidSource(Date.now, 'real');
  #running: Promise<unknown> = Promise.resolve();
  #isOver = false;
  /** Number of jobs that they have run. */
  runs = 0;

  /** Starts the minions. Resolves when their keys are accepted. */
  static async start(site: Site, programs: readonly string[]): Promise<RealMinions> {
    const { requestPort, publishPort, members } = site;
    const masters = members.slice(0, 3).map(({ place }) => place.host);
    const [first] = members;
    const minions: RealMinion[] = [];
    for (const [index, program] of programs.entries()) {
      const options = { program, name: `p${index}`, masters, requestPort, publishPort };
      const minion = await RealMinion.create(options);
      minions.push(minion);
      minion.start();
      await eventually(`the key of ${minion.id}`, async () => {
        const changes = await first?.api.keys.accept({ match: minion.id });
        return changes?.length === 1;
      });
    }
    return new RealMinions(site, minions);
  }

  private constructor(site: Site, minions: readonly RealMinion[]) {
    this.#history = new HistoryFile(site.histories, 'real-minions');
    this.#minions = minions;
  }

  run(api: MasterApi): void {
    this.#running = Promise.all(
      this.#minions.map(async (minion) => {
        while (!this.#isOver) {
          await this.#publish(api, minion);
          await sleep(pauseMs);
        }
      }),
    );
  }

  /** Stops publishing jobs and records which jobs were run. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
    for (const minion of this.#minions) {
      if (!existsSync(fileOf(minion))) continue;
      const lines = readFileSync(fileOf(minion), 'utf8').split('\n').filter(Boolean);
      for (const jid of lines) this.#history.note({ fact: 'ran', jid, minion: minion.id });
      this.runs += lines.length;
    }
  }

  async dispose(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#minions.map((minion) => minion.dispose()));
  }

  /** Publishes a job that writes its jid to a file. */
  async #publish(api: MasterApi, minion: RealMinion): Promise<void> {
    const jid = this.#nextJid();
    const from = Date.now();
    const job = { fact: 'job', jid, minion: minion.id, by: 'real', from } as const;
    try {
      await api.jobs.publish({
        tgt: [minion.id],
        tgtType: 'list',
        fun: 'cmd.run',
        arg: [`echo ${jid} >> ${fileOf(minion)}`],
        kwarg: { python_shell: true },
        jid,
      });
      this.#history.note({ ...job, outcome: 'kept', to: Date.now() });
    } catch {
      this.#history.note({ ...job, outcome: 'unknown', to: Date.now() });
    }
  }
}

function fileOf({ directory }: RealMinion): string {
  return path.join(directory, 'runs');
}
