/** The files of ours in which code runs, in all threads of this process, by V8's precise coverage. */
import { Session } from 'node:inspector';
import { setTimeout as sleep } from 'node:timers/promises';

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly functionName: string;
    readonly ranges: readonly { readonly count: number }[];
  }[];
}

interface Reply {
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** Threads that start later are attached to within this, milliseconds. */
const attachMs = 200;

/** Counts calls from {@link start} on. */
export class ProcessCoverage {
  readonly #session = new Session();
  /** Sessions of the worker threads, as the inspector names them. */
  readonly #workers = new Set<string>();
  readonly #pending = new Map<string, Pending>();
  #lastId = 0;

  /** Before any worker thread starts. */
  async start(): Promise<void> {
    this.#session.connect();
    this.#session.on('NodeWorker.attachedToWorker', ({ params: { sessionId } }) => {
      // A thread that has ended meanwhile answers nothing.
      this.#workers.add(sessionId);
      void this.#startIn(sessionId);
    });
    this.#session.on('NodeWorker.detachedFromWorker', ({ params: { sessionId } }) => {
      this.#workers.delete(sessionId);
      for (const [key, { resolve }] of this.#pending) {
        if (key.startsWith(`${sessionId} `)) resolve({ result: [] });
      }
    });
    this.#session.on('NodeWorker.receivedMessageFromWorker', ({ params }) => {
      this.#settle(params.sessionId, JSON.parse(params.message));
    });
    this.#session.post('NodeWorker.enable', { waitForDebuggerOnStart: false });
    for (const method of startMethods) await this.#post(method, startParameters);
  }

  /** Forgets what ran until now. */
  async reset(): Promise<void> {
    await sleep(attachMs);
    await this.take();
  }

  /** The names of the functions that ran since the last call, by the URL of their script. */
  async take(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
    const results = await Promise.all([
      this.#post('Profiler.takePreciseCoverage', {}),
      ...[...this.#workers].map((id) => this.#postTo(id, 'Profiler.takePreciseCoverage', {})),
    ]);
    const ran = new Map<string, Set<string>>();
    for (const { url, functions } of results.flatMap(
      (it) => (it as { result: readonly ScriptCoverage[] }).result,
    )) {
      for (const { functionName, ranges } of functions) {
        if ((ranges[0]?.count ?? 0) === 0) continue;
        const names = ran.get(url) ?? new Set();
        ran.set(url, names.add(functionName || '(anonymous)'));
      }
    }
    return ran;
  }

  stop(): void {
    this.#session.disconnect();
  }

  async #startIn(worker: string): Promise<void> {
    for (const method of startMethods) await this.#postTo(worker, method, startParameters);
  }

  #post(method: string, parameters: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#session.post(method, parameters, (error, result) => {
        if (error === null) resolve(result);
        else reject(error);
      });
    });
  }

  #postTo(worker: string, method: string, params: object): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      this.#pending.set(`${worker} ${id}`, { resolve, reject });
      const message = JSON.stringify({ id, method, params });
      this.#session.post('NodeWorker.sendMessageToWorker', { sessionId: worker, message });
    });
  }

  #settle(worker: string, { id, result, error }: Reply): void {
    const key = `${worker} ${id}`;
    const pending = this.#pending.get(key);
    this.#pending.delete(key);
    if (error === undefined) pending?.resolve(result);
    else pending?.reject(new Error(error.message));
  }
}

const startMethods = ['Profiler.enable', 'Profiler.startPreciseCoverage'] as const;
const startParameters = { callCount: true, detailed: true };
