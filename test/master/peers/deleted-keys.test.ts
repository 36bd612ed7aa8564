/** Jobs and runners that a minion requests, and that wait while the key of the minion is deleted. */

import { setImmediate as turn } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import {
  type CallContext,
  type MasterExtension,
  type MasterFunction,
  masterServices,
} from '#master';
import type { MinionRunners } from '#master/api/extensions.ts';
import type { WireMap } from '#minion-protocol';
import { PeerRunner } from '#salt/peers/peer-runner.ts';
import { createMemoryStore } from '#store';
import { otherKey } from '../../helpers/connected-minion.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';
import { pem } from '../../helpers/vectors.ts';

const everybody = { '.*': ['.*'] };

/** Interface through which a runner starts jobs for its caller. */
type RequesterJobs = CallContext['requesterJobs'];

/** Extension with the runner `probe.run`. */
interface Probe {
  readonly extension: MasterExtension;
  /** Resolves when the runner is called, with its interface for jobs. */
  readonly jobs: Promise<RequesterJobs>;
}

function createProbe(): Probe {
  const { promise: jobs, resolve } = Promise.withResolvers<RequesterJobs>();
  const runner: MasterFunction = {
    summary: 'Gives its interface for jobs to the test.',
    signature: '',
    takes: () => false,
    declares: () => false,
    isConfidential: false,
    succeeds: () => true,
    bind: () => async (context) => {
      resolve(context.requesterJobs);
      return true;
    },
  };
  const open: MasterExtension['open'] = async () => ({ runners: { 'probe.run': runner } });
  return { extension: { name: 'probe', open }, jobs };
}

interface Stage extends VectorMaster {
  /** Resolves when the master stores the first mark of a request. The write then waits. */
  readonly waiting: Promise<void>;
  /** Lets the write continue. */
  readonly proceed: () => void;
  /** Sends a request of the minion. There is no reply if the key is deleted meanwhile. */
  send(load: WireMap): void;
  /** Tags of the events about new jobs and runners. */
  readonly begun: string[];
  isRefused(): Promise<boolean>;
}

async function start(t: ExecutionContext, extension?: MasterExtension): Promise<Stage> {
  const store = createMemoryStore();
  const waiting = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const write = store.write.bind(store);
  store.write = async (operations) => {
    if (operations.some((it) => 'key' in it && it.key[0] === 'self-made')) {
      waiting.resolve();
      await gate.promise;
    }
    return write(operations);
  };
  const { publicPem } = pem('minion');
  const master = await startVectorMaster(t, {
    store,
    keys: [{ directory: 'minions', id: 'vecminion', publicPem }, otherKey('web1')],
    config: { peer: everybody, peerRun: everybody, timeout: 0.1, gatherJobTimeout: 0.1 },
    ...(extension === undefined ? {} : { extensions: [extension] }),
  });
  const begun: string[] = [];
  const end = new AbortController();
  t.teardown(() => end.abort());
  const events = await master.master.events.subscribe({}, end.signal);
  const read = async (): Promise<void> => {
    for await (const { tag } of events)
      if (/^salt\/(?:job|run)\/\d+\/new$/.test(tag)) begun.push(tag);
  };
  void read();
  return {
    ...master,
    waiting: waiting.promise,
    proceed: () => gate.resolve(),
    begun,
    send: (load) => {
      const more = { id: 'vecminion', nonce: freshNonce(), ...load };
      const request = altered(recorded('aes_functions', '_master_opts v3'), { load: more });
      master.ask(request).catch(() => {});
    },
    isRefused: async () => ((await master.counters())['not-accepted'] ?? 0) > 0,
  };
}

/**
 * Sends a request, deletes the key of the minion while the request waits, and returns the tags of
 * the events about new jobs and runners.
 */
async function begunBy(t: ExecutionContext, load: WireMap): Promise<readonly string[]> {
  const stage = await start(t);
  stage.send(load);
  await stage.waiting;
  await stage.master.keys.delete({ match: 'vecminion' });
  stage.proceed();
  while (stage.begun.length === 0 && !(await stage.isRefused())) await turn();
  return stage.begun;
}

const job = { fun: 'test.ping', tgt: 'web1', arg: [], ret: '' };

test('a job that a minion requests does not start if the key is deleted while the request waits', async (t) => {
  t.deepEqual(await begunBy(t, { cmd: 'minion_pub', ...job }), []);
});

test('a job that the minion waits for does not start if the key is deleted while the request waits', async (t) => {
  t.deepEqual(await begunBy(t, { cmd: 'minion_publish', ...job }), []);
});

test('a runner that a minion requests does not start if the key is deleted while the request waits', async (t) => {
  const load = { cmd: 'minion_runner', fun: 'cache.list', arg: ['minions'] };
  t.deepEqual(await begunBy(t, load), []);
});

test('a runner of a minion starts no job after the key was deleted', async (t) => {
  const { extension, jobs } = createProbe();
  const stage = await start(t, extension);
  stage.proceed();
  stage.send({ cmd: 'minion_runner', fun: 'probe.run', arg: [] });
  const own = await jobs;
  const first = async (): Promise<unknown> =>
    own?.run({ tgt: 'web1', fun: 'test.ping' })[Symbol.asyncIterator]().next();
  t.like(await first(), { value: { type: 'published', minions: ['web1'] } });
  await stage.master.keys.delete({ match: 'vecminion' });
  await t.throwsAsync(first, { code: 'ERR_DENIED' });
});

/** Runs `probe.run` of an extension at the request of a minion. */
type RunProbe = (isKeyCurrent: () => boolean) => Promise<unknown>;

/** Starts a master, and returns a function that runs this runner at the request of a minion. */
async function openRunner(
  t: ExecutionContext,
  run: MinionRunners[string],
  onReading: () => void = () => {},
): Promise<RunProbe> {
  const opened = Promise.withResolvers<PeerRunner>();
  const extension: MasterExtension = {
    name: 'probe',
    open: async (host) => {
      const { runners } = host.use(masterServices.functions);
      const { counters, log } = host.use(masterServices.context);
      const runner = new PeerRunner({
        ...{ runners, counters, log },
        minionRunners: new Map([['probe.run', run]]),
        jobs: host.use(masterServices.jobs),
        gate: host.use(masterServices.users).gate,
        reader: {
          readWords: async () => {
            onReading();
            return { arg: [], kwarg: {} };
          },
        },
      });
      opened.resolve(runner);
      return {};
    },
  };
  await start(t, extension);
  const runner = await opened.promise;
  const load = { fun: 'probe.run', arg: ['text'] };
  return (isKeyCurrent) =>
    runner.run({ minionId: 'vecminion', load, isKeyCurrent, version: 3 }, undefined);
}

test('a runner of an extension does not run if the key is deleted while its arguments are parsed', async (t) => {
  const calls: string[] = [];
  let isAccepted = true;
  const run = await openRunner(
    t,
    async ({ minion }) => calls.push(minion),
    () => {
      isAccepted = calls.length === 0;
    },
  );
  await run(() => isAccepted);
  t.deepEqual(calls, ['vecminion']);
  // The key is deleted while the arguments of the second call are parsed.
  await run(() => isAccepted);
  t.deepEqual(calls, ['vecminion']);
});

test('a runner of an extension that waits can find that the key was deleted', async (t) => {
  let isAccepted = true;
  const steps: string[] = [];
  const run = await openRunner(t, async ({ requirePermission }) => {
    requirePermission();
    steps.push('started');
    isAccepted = false;
    requirePermission();
    return steps.push('continued');
  });
  await t.throwsAsync(
    run(() => isAccepted),
    { code: 'ERR_DENIED' },
  );
  t.deepEqual(steps, ['started']);
});
