import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Bridge } from '#guests';
import type { MinionConfig, PlanOutcome } from '#heat-bridge';
import { freePort } from '../../bench/free-port.ts';
import { call, PythonCaller } from '../callers.ts';
import { type ControlPlane, startControlPlane } from '../control-plane.ts';
import { type Example, type Need, program, type Step, variable } from '../example.ts';
import { Machine } from '../machine.ts';
import { Receiver } from './receiver.ts';

const sources = fileURLToPath(new URL('../../examples/sahara', import.meta.url));
const master = 'sahara-lab-master';
const workers = ['sahara-lab-1', 'sahara-lab-2'];
const added = 'sahara-lab-3';
const inputs = ['one.txt', 'two.txt'];

/** Clusters and jobs as Sahara runs them. Real minions run them as real processes. */
export const sahara: Example = {
  description: 'a cluster and its jobs, started, scaled, polled and cancelled by real minions',
  needs: saharaNeeds,
  run: async (step) => {
    const receiver = await Receiver.start();
    const plane = await step(
      'start a master with catalog, policy, modules and binaries',
      async () => {
        const started = await startControlPlane({
          sources,
          service: 'sahara',
          users: ['lab', 'other'],
          bridge: { handles: { endpoints: [receiver.origin] } },
        });
        return { ...started, toJSON: () => started.url };
      },
    );
    const scene = new Scene(step, plane, receiver);
    try {
      await scene.bootNodes([master, ...workers]);
      await scene.startCluster();
      await scene.runJob();
      await scene.cancelJob();
      await scene.failJob();
      await scene.refuse();
      await scene.scaleOut();
      await scene.stopCluster();
      await scene.retire();
    } finally {
      await scene.close();
    }
  },
};

function saharaNeeds(): readonly Need[] {
  return [
    variable('SALT_MINION', 'path of a salt-minion of 3006.12, 3007.4 or later'),
    program('openssl', 'openssl'),
    program('curl', 'curl'),
    program('python3', 'python3'),
  ];
}

/** Node of a cluster. */
class Node extends Machine {
  override get config(): MinionConfig {
    return { ...super.config, sahara: { directory: this.directory, host: '127.0.0.1' } };
  }

  get directory(): string {
    return path.join(this.folder, 'sahara');
  }
}

/** Data that Sahara has about a job. */
interface JobExecution {
  readonly id: string;
  readonly engine_job_id?: string;
  readonly mains: readonly string[];
  readonly job_configs: {
    readonly configs: { readonly input: string };
    readonly args?: readonly string[];
  };
}

interface EngineAnswer {
  readonly return?: unknown;
  /** Code and message of the error. */
  readonly error?: readonly [string, string];
}

interface JobStatus {
  readonly status: string;
  readonly reason?: string;
  readonly done?: number;
  readonly tasks?: number;
}

/**
 * Sahara's engine. It is written in Python, calls the bridge over HTTPS, and has Sahara's method
 * names.
 */
class Engine extends PythonCaller {
  readonly #cluster: object;

  constructor(plane: ControlPlane, user: 'lab' | 'other', cluster: object) {
    super(path.join(sources, 'python/call_engine.py'), plane, user);
    this.#cluster = cluster;
  }

  async call(method: string, execution: JobExecution): Promise<EngineAnswer> {
    // The type of the result is defined in call_engine.py.
    return (await this.ask([this.#cluster, method, execution])) as EngineAnswer;
  }

  /**
   * Submits a job.
   * @returns the job in the form that the other methods require
   * @throws Error if the job was rejected
   */
  async submit(execution: JobExecution): Promise<JobExecution> {
    const { return: value, error } = await this.call('run_job', execution);
    if (error !== undefined) throw new Error(error.join(': '));
    const [id] = value as readonly [string, string];
    return { ...execution, engine_job_id: id };
  }

  /** Polls the status of a job until it meets a condition. */
  async poll(execution: JobExecution, isWanted: (it: JobStatus) => boolean): Promise<JobStatus> {
    for (;;) {
      const { return: value, error } = await this.call('get_job_status', execution);
      if (error !== undefined) throw new Error(error.join(': '));
      const status = value as JobStatus;
      if (isWanted(status)) return status;
      if (hasEnded(status)) throw new Error(`the job ended as ${JSON.stringify(status)}`);
      await sleep(pollMs);
    }
  }
}

const pollMs = 300;

const hasEnded = ({ status }: JobStatus): boolean =>
  ['SUCCEEDED', 'FAILED', 'KILLED'].includes(status);

/** @param mapper - name of the mapper without its extension */
function wordCount(
  id: string,
  mapper = 'word_count_map',
  args: readonly string[] = [],
): JobExecution {
  const mains = [`${mapper}.py`, 'word_count_reduce.py'];
  return { id, mains, job_configs: { configs: { input: 'texts' }, args } };
}

class Scene {
  readonly #step: Step;
  readonly #plane: ControlPlane;
  readonly #receiver: Receiver;
  readonly #nodes = new Map<string, Node>();
  readonly #numbers: string[] = [];
  readonly #lab: Engine;
  readonly #other: Engine;
  #ports: { readonly namenode_port: number; readonly resourcemanager_port: number } | undefined;

  constructor(step: Step, plane: ControlPlane, receiver: Receiver) {
    this.#step = step;
    this.#plane = plane;
    this.#receiver = receiver;
    const cluster = { master, workers, callback: receiver.callback };
    this.#lab = new Engine(plane, 'lab', cluster);
    this.#other = new Engine(plane, 'other', { master, workers });
  }

  get #bridge(): Bridge {
    return this.#plane.server.bridge;
  }

  /** Enrols nodes, and boots them with their user-data. */
  async bootNodes(ids: readonly string[]): Promise<void> {
    await this.#step(`enrol and boot ${ids.join(', ')}, and copy the modules to them`, async () => {
      await Promise.all(ids.map((id) => this.#boot(id)));
      await Promise.all(ids.map((id) => call(this.#bridge, id, 'sahara.sync-modules')));
      return ids.length;
    });
  }

  async #boot(id: string): Promise<void> {
    const node = new Node('sahara/*.pid', this.#nodes.size);
    this.#nodes.set(id, node);
    const { configDir, config } = node;
    const { enrolment, userData } = await this.#bridge.enroll.create({
      ...{ id, project: 'lab', format: 'shell', configDir, config },
    });
    this.#numbers.push(enrolment.number);
    await node.boot(userData);
    await this.#bridge.enroll.signedIn(enrolment.number);
  }

  async #plan(name: string, groups: object, params: object = {}): Promise<PlanOutcome> {
    const run = await this.#bridge.plan(`sahara.${name}`, {
      groups: { ...groups },
      params: { ...params },
    });
    return run.outcome;
  }

  async #services(): Promise<Record<string, unknown>> {
    const ids = [...this.#nodes.keys()];
    const lists = await Promise.all(ids.map((id) => call(this.#bridge, id, 'sahara.services')));
    return Object.fromEntries(ids.map((id, index) => [id, lists[index]]));
  }

  async startCluster(): Promise<void> {
    this.#ports = { namenode_port: await freePort(), resourcemanager_port: await freePort() };
    const address = { master: '127.0.0.1', ...this.#ports };
    await this.#step(
      'start the services of the cluster by a plan, in the order of their dependencies',
      async () => {
        const { status, failedStep } = await this.#plan(
          'start-cluster',
          { master, workers },
          address,
        );
        return { status, failedStep, services: await this.#services() };
      },
      ({ status, services }) =>
        status === 'succeeded' &&
        String(services[master]) === 'namenode,resourcemanager' &&
        workers.every((id) => String(services[id]) === 'datanode,nodemanager'),
    );
    await this.#step(
      'copy the input from the file server to the workers, one file to each',
      async () => {
        for (const [index, id] of workers.entries()) {
          const params = { name: 'texts', files: inputs.slice(index, index + 1) };
          await call(this.#bridge, id, 'sahara.put', params);
        }
      },
    );
  }

  async runJob(): Promise<void> {
    const job = await this.#step(
      'Python: call BridgeEngine.run_job, and poll until the job has succeeded',
      async () => {
        const submitted = await this.#lab.submit(wordCount('count-1'));
        const { status } = await this.#lab.poll(submitted, ({ status: it }) => it === 'SUCCEEDED');
        return { ...submitted, status };
      },
      ({ status }) => status === 'SUCCEEDED',
    );
    await this.#step(
      'progress and result arrived as signals, and the result is correct',
      async () => {
        const news = await this.#newsOf('count-1', 'SUCCEEDED');
        const { output = '', ...last } = news.at(-1) ?? { job: '' };
        const states = [...new Set(news.map(({ state }) => state))];
        return { states, last, isRight: output === countWords(), forged: this.#receiver.forged };
      },
      ({ states, isRight, forged }) =>
        states.at(-1) === 'SUCCEEDED' && states.length > 1 && isRight && forged === 0,
    );
    await this.#step(
      'run_job for the same execution again: it returns the same run, and publishes nothing',
      async () => {
        const before = (await this.#plane.server.master.jobs.list()).length;
        const again = await this.#lab.submit(wordCount('count-1'));
        const published = (await this.#plane.server.master.jobs.list()).length - before;
        return { isSame: again.engine_job_id === job.engine_job_id, published };
      },
      ({ isSame, published }) => isSame && published === 0,
    );
  }

  /**
   * Returns the messages that the receiver got about a job, as soon as the job has ended in this
   * state.
   */
  async #newsOf(job: string, state: string): Promise<ReturnType<Receiver['of']>> {
    while (this.#receiver.of(job).at(-1)?.state !== state) await sleep(pollMs);
    return this.#receiver.of(job);
  }

  async cancelJob(): Promise<void> {
    await this.#step(
      'Python: cancel_job for a running job; its tasks end',
      async () => {
        const job = await this.#lab.submit(wordCount('count-slow', 'word_count_map', ['600']));
        const running = await this.#lab.poll(job, ({ status }) => status === 'RUNNING');
        const { return: cancelled } = await this.#lab.call('cancel_job', job);
        const state = await call(this.#bridge, master, 'sahara.job-status', { job_id: job.id });
        return { running, cancelled, state, tasks: tasksOf(this.#nodes) };
      },
      ({ cancelled, state, tasks }) =>
        (cancelled as JobStatus).status === 'KILLED' &&
        (state as { state: string }).state === 'KILLED' &&
        tasks === 0,
    );
  }

  async failJob(): Promise<void> {
    await this.#step(
      'a job whose mapper fails is FAILED, with the output of the mapper',
      async () => {
        const job = await this.#lab.submit(wordCount('count-broken', 'broken_map'));
        return this.#lab.poll(job, hasEnded);
      },
      ({ status, reason }) =>
        status === 'FAILED' && reason?.includes('cannot read its input') === true,
    );
  }

  async refuse(): Promise<void> {
    await this.#step(
      'another project cannot see the plan; a binary outside the file server is rejected',
      async () => {
        const { error: theirs } = await this.#other.call('run_job', wordCount('theirs'));
        const { error: path } = await this.#lab.call('run_job', wordCount('p', '../../etc/x'));
        const stop = this.#bridge.run('sahara.run-job', { target: [master], params: {} });
        const missing = await stop.then(
          () => 'it was taken',
          (error: { readonly code?: string }) => error.code,
        );
        return [theirs?.[0], path?.[0], missing];
      },
      (codes) => codes.join() === 'ERR_PLAN_UNKNOWN,ERR_COMMAND_PARAMETERS,ERR_COMMAND_PARAMETERS',
    );
  }

  async scaleOut(): Promise<void> {
    await this.bootNodes([added]);
    const groups = { master, added };
    const params = { master: '127.0.0.1', ...this.#ports, names: [added] };
    await this.#step(
      'scale out while the resourcemanager is down: the plan fails, and removes the datanode again',
      async () => {
        await call(this.#bridge, master, 'sahara.stop-service', { service: 'resourcemanager' });
        const { status, failedStep } = await this.#plan('scale-out', groups, params);
        await call(this.#bridge, master, 'sahara.start-service', { service: 'resourcemanager' });
        return { status, failedStep, services: (await this.#services())[added] };
      },
      ({ status, failedStep, services }) =>
        status === 'failed' && failedStep === 'nodemanagers' && String(services) === '',
    );
    await this.#step(
      'scale out: start the datanode, then the nodemanager; the masters list both',
      async () => {
        const { status } = await this.#plan('scale-out', groups, params);
        await call(this.#bridge, added, 'sahara.put', { name: 'texts', files: inputs });
        return { status, services: (await this.#services())[added] };
      },
      ({ status, services }) =>
        status === 'succeeded' && String(services) === 'datanode,nodemanager',
    );
    await this.#step(
      'the next job also runs on the new node',
      async () => {
        const cluster = { master, workers: [...workers, added], callback: this.#receiver.callback };
        const engine = new Engine(this.#plane, 'lab', cluster);
        const job = await engine.submit(wordCount('count-2'));
        await engine.poll(job, ({ status }) => status === 'SUCCEEDED');
        await engine.close();
        const [last] = (await this.#newsOf(job.id, 'SUCCEEDED')).slice(-1);
        return { nodes: last?.nodes, tasks: last?.tasks };
      },
      ({ nodes, tasks }) => nodes?.includes(added) === true && tasks === 4,
    );
  }

  async stopCluster(): Promise<void> {
    await this.#step(
      'stop the services of the cluster by a plan: no process remains',
      async () => {
        const all = { master, workers: [...workers, added] };
        const { status } = await this.#plan('stop-cluster', all);
        return { status, services: await this.#services() };
      },
      ({ status, services }) =>
        status === 'succeeded' && Object.values(services).every((it) => String(it) === ''),
    );
  }

  async retire(): Promise<void> {
    await this.#step(
      'retire the nodes: their keys are deleted',
      async () => {
        for (const number of this.#numbers) await this.#bridge.enroll.retire({ number });
        return (await this.#plane.server.master.keys.list()).map(({ id }) => id);
      },
      (ids) => ids.length === 0,
    );
  }

  async close(): Promise<void> {
    await Promise.all([this.#lab.close(), this.#other.close()]);
    await Promise.all(Array.from(this.#nodes.values(), (it) => it.close()));
    await this.#plane.close();
    await this.#receiver.close();
  }
}

/** Returns the expected result of the job, computed here. */
function countWords(): string {
  const counts = new Map<string, number>();
  for (const name of inputs) {
    const text = readFileSync(path.join(sources, 'files/sahara/input', name), 'utf8');
    for (const part of text.toLowerCase().split(/\s+/).filter(Boolean)) {
      const word = part.replace(/^[.,;:!?]+|[.,;:!?]+$/g, '');
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  return [...counts]
    .map(([word, count]) => `${word}\t${count}\n`)
    .sort()
    .join('');
}

/** Returns the number of tasks of jobs that are running on these nodes. */
function tasksOf(nodes: ReadonlyMap<string, Node>): number {
  const places = Array.from(nodes.values(), ({ directory }) => path.join(directory, 'binaries/'));
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => {
    const command = readCommand(pid);
    return places.some((place) => command.includes(place));
  }).length;
}

function readCommand(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    // The process has ended in the meantime.
    return '';
  }
}
