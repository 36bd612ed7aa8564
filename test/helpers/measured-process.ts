/** A master that is alone in a process, for tests that measure its memory. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import type { TransportName } from '#config';
import type { MasterStatus } from '#master';
import { within } from './deadline.ts';
import type { Answer, Question } from './measured-master.ts';

const program = fileURLToPath(new URL('./measured-master.ts', import.meta.url));

/** Bytes that its memory may differ by, from one measurement to another. */
export const allowedGrowth: number = 30 * 1024 * 1024;

/**
 * The least that a master's memory grew by in one of three tries, in bytes: what is lost is lost in
 * each of them, what pools take is taken once.
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

/** The master in its process. */
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
    const [answer]: Answer[] = await within(
      'the master process',
      once(this.#child, 'message'),
      20_000,
    );
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

/** Starts one; it ends with the test. */
export async function startMasterProcess(
  t: ExecutionContext,
  transport: TransportName,
): Promise<{ master: MasterProcess; status: MasterStatus }> {
  // A small young generation: how much of it V8 reserves differs more than what peers can hold.
  const execArgv = ['--expose-gc', '--max-semi-space-size=4'];
  const master = new MasterProcess(fork(program, [transport], { execArgv }));
  t.teardown(() => master.end());
  const { status } = await master.next();
  return { master, status };
}
