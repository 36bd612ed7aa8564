/** Starts a master in a process of its own, for tests that measure its memory. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import type { TransportName } from '#config';
import type { MasterStatus } from '#master';
import { within } from './deadline.ts';
import type { Answer, Question } from './measured-master.ts';

const program = fileURLToPath(new URL('./measured-master.ts', import.meta.url));

/** Maximum difference between two measurements of the memory that a test ignores, in bytes. */
export const allowedGrowth: number = 30 * 1024 * 1024;

/**
 * Returns the smallest growth of a master's memory in three attempts, in bytes. A leak grows in
 * each attempt, but the memory of pools is allocated only once.
 */
export async function growthDuring(
  master: MasterProcess,
  work: () => Promise<void>,
): Promise<number> {
  let growth = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < 3 && growth >= allowedGrowth; tries += 1) {
    const before = (await master.ask('memory')).rss;
    await work();
    growth = Math.min(growth, (await master.ask('memory')).rss - before);
  }
  return growth;
}

/** A master in a process of its own. */
export class MasterProcess {
  readonly #child: ChildProcess;
  status: MasterStatus | undefined;

  constructor(child: ChildProcess) {
    this.#child = child;
  }

  async ask(question: Question): Promise<Answer> {
    const answer = this.next();
    this.#child.send(question);
    return answer;
  }

  async next(): Promise<Answer> {
    const [answer]: Answer[] = await within('the master process', once(this.#child, 'message'));
    if (answer === undefined) throw new Error('no answer');
    this.status = answer.status;
    return answer;
  }

  async end(): Promise<void> {
    const gone = once(this.#child, 'exit');
    this.#child.disconnect();
    await within('the end of the master process', gone);
  }
}

/** Starts the process. It is ended at the end of the test. */
export async function startMasterProcess(
  t: ExecutionContext,
  transport: TransportName,
): Promise<{ master: MasterProcess; status: MasterStatus }> {
  // The young generation is small, because V8 would otherwise reserve varying amounts that exceed
  // what peers can use.
  const execArgv = ['--expose-gc', '--max-semi-space-size=4'];
  const master = new MasterProcess(fork(program, [transport], { execArgv }));
  t.teardown(() => master.end());
  const { status } = await master.next();
  return { master, status };
}
