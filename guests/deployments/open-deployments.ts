/** Opens software deployments from their parts, and reads their options. */

import { setMaxListeners } from 'node:events';
import Type from 'typebox';
import type { Subject } from '#acl';
import {
  type Ask,
  type BridgeContribution,
  type CommandsService,
  type DeliveryOutcome,
  type KnownEnrolments,
  parseSection,
  type SignalsModule,
  secretsOf,
} from '#heat-bridge';
import { type AuditRequester, audited, type ExtensionHost } from '#master';
import { sleepUntilAborted } from '#runtime';
import { CodeCatalog, type CodeDefinition } from './code-catalog.ts';
import { resolveCall } from './deployment-call.ts';
import { DeploymentMeter } from './deployment-meter.ts';
import { type DeploymentRecord, DeploymentRecords } from './deployment-records.ts';
import { DeploymentRuns } from './deployment-runs.ts';
import { StackLogins } from './logins.ts';
import {
  type FollowedServer,
  type ServerStatus,
  ServerWorker,
  type ServerWorkerDeps,
} from './server-worker.ts';
import { deliverStackResult } from './signal-result.ts';
import { type ReadResult, readServer, type ServerSource } from './sources.ts';
import { createHandleSignaller, registerHandles } from './stack-handles.ts';
import { findServers, minionOfServer, namedServers } from './stack-servers.ts';
import {
  type OwnerLogin,
  parseStackRegistration,
  type RegisteredStack,
  type StackRegistration,
  StackRegistry,
} from './stacks.ts';
import { deploymentInfoOf, type StacksApi, stackMethods } from './stacks-api.ts';

// Options `saltbridge: bridge: deployments:`.

const Section = Type.Object(
  {
    poll_interval: Type.Optional(Type.Number({ minimum: 1, maximum: 3600 })),
    polls_per_second: Type.Optional(Type.Number({ minimum: 0.1, maximum: 10_000 })),
    retry_max_delay: Type.Optional(Type.Number({ minimum: 1, maximum: 86_400 })),
    max_running: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
    metadata_bytes: Type.Optional(Type.Integer({ minimum: 1024, maximum: 16_777_216 })),
  },
  { additionalProperties: false },
);

/** See the section; each has a default. */
interface DeploymentsOptions {
  /** Milliseconds between two reads of a server. Default 30,000, as Heat's own agents. */
  readonly intervalMs: number;
  /** Requests for metadata in all. Default 20. */
  readonly pollsPerSecond: number;
  /** Default 300,000. */
  readonly maxDelayMs: number;
  /** Deployments that run at a time. Default 200. */
  readonly maxRunning: number;
  /** Of one server's metadata. Default 1 MiB. */
  readonly maxBytes: number;
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
export function parseDeploymentsOptions(given: unknown = {}): DeploymentsOptions {
  const section = parseSection('bridge:deployments', Section, given);
  return {
    intervalMs: (section.poll_interval ?? 30) * 1000,
    pollsPerSecond: section.polls_per_second ?? 20,
    maxDelayMs: (section.retry_max_delay ?? 300) * 1000,
    maxRunning: section.max_running ?? 200,
    maxBytes: section.metadata_bytes ?? 1_048_576,
  };
}

/** Spreads requests evenly: each waits for its turn. */
class Pacer {
  readonly #gapMs: number;
  #next = 0;

  constructor(perSecond: number) {
    this.#gapMs = 1000 / perSecond;
  }

  async turn(closing: AbortSignal): Promise<void> {
    const now = performance.now();
    const at = Math.max(now, this.#next);
    this.#next = at + this.#gapMs;
    if (at > now) await sleepUntilAborted(at - now, closing);
  }
}

// The module.

export interface DeploymentsDeps {
  readonly section: unknown;
  readonly code: readonly CodeDefinition[];
  readonly commands: Pick<CommandsService, 'catalog' | 'createRunner' | 'runner'>;
  /** Enrolments of machines, if the bridge enrols any. */
  readonly enrolments: Pick<KnownEnrolments, 'liveOfInstance'> | undefined;
  readonly signals: Pick<SignalsModule, 'api' | 'ask' | 'handleFor' | 'intake' | 'isListed'>;
}

/** Heat's agent for minions. */
export interface DeploymentsModule
  extends Required<Pick<BridgeContribution, 'close' | 'metrics' | 'rpc' | 'start'>> {
  readonly api: StacksApi;
  /** The same interface for somebody else, whose rules hold for what is registered. */
  as(requester: AuditRequester, subject: Subject): StacksApi;
  /** Lets no stack reach a minion that is no more; durable when it resolves. */
  dismiss(minion: string): Promise<void>;
}

/** Registrations at the local socket are those of a service of this name. */
const defaultService = 'deployments';

/** @throws BridgeError ERR_BRIDGE_OPTIONS, ERR_CATALOG */
export async function openDeployments(
  host: ExtensionHost,
  deps: DeploymentsDeps,
): Promise<DeploymentsModule> {
  const { section, code, commands, enrolments, signals } = deps;
  const options = parseDeploymentsOptions(section);
  const { shared: state, now, closing } = host;
  const log = host.logger.child({ component: 'deployments' });
  const codeCatalog = new CodeCatalog(code);
  const codeRunner = commands.createRunner(codeCatalog.commands);
  await codeRunner.share('deployments');
  const registry = await StackRegistry.open({ state, isListed: signals.isListed, now });
  const records = await DeploymentRecords.open(state, now);
  const logins = new StackLogins();
  const runs = new DeploymentRuns({
    host,
    runners: { command: commands.runner, code: codeRunner },
    records,
    maxRunning: options.maxRunning,
  });
  const meter = new DeploymentMeter();
  const pacer = new Pacer(options.pollsPerSecond);
  const askUntil =
    (ended: AbortSignal): Ask =>
    (request) =>
      signals.ask(request, ended);
  const workerDeps = (stack: RegisteredStack, ended: AbortSignal): ServerWorkerDeps => ({
    records,
    read: async (source) => {
      const ask = askUntil(ended);
      const result = await readServer(source, { ask, logins, maxBytes: options.maxBytes, now });
      meter.countRead(result.kind);
      return redactSecrets(result, secretsOfSource(source));
    },
    minionOf: async (server, metadata) =>
      minionOfServer(
        stack,
        server,
        metadata,
        enrolments?.liveOfInstance(server.source.serverId) ?? [],
      ),
    isPresent: (minion) => host.isConnected(minion),
    registerHandles: (minion, metadata) =>
      registerHandles({ stack, minion, metadata, handles: signals.api.handles, log }),
    resolve: (deployment) =>
      resolveCall(deployment, { commands: commands.catalog, code: codeCatalog }),
    run: (record, subject, isResumed) => runs.run(record, subject, isResumed),
    deliver: async (delivery) => {
      const signalHandle = createHandleSignaller(stack, signals);
      const ask = askUntil(ended);
      const outcome = await deliverStackResult(delivery, { ask, logins, signalHandle });
      meter.countSignal(outcome.kind);
      return redactSecrets(outcome, [
        ...secretsOf(delivery.signal),
        ...secretsOfLogin(delivery.login),
      ]);
    },
    turn: () => pacer.turn(ended),
    onEnd: (record) => {
      meter.countEnd(record.end ?? 'failed');
      fireEnd(host, stack, record);
    },
    intervalMs: options.intervalMs,
    backOff: { initialDelayMs: 1_000, maxDelayMs: options.maxDelayMs },
    closing: ended,
    now,
    random: Math.random,
    log,
  });
  const followers = new StackFollowers(registry, (stack, ended) => {
    const find = async (): ReturnType<typeof findServers> => {
      await pacer.turn(ended);
      return findServers(stack, { ask: askUntil(ended), logins });
    };
    const { intervalMs } = options;
    return new StackFollower(stack, { worker: workerDeps(stack, ended), find, intervalMs });
  });
  // A worker may have written something before it noticed that its stack is no more.
  const forget = async (id: string): Promise<void> => {
    await followers.update(id);
    await records.forgetStack(id);
  };
  registry.onChanged = (id) => {
    const isOver = registry.get(id) === undefined && state.cluster?.isHeld === true;
    const changed = isOver ? forget(id) : followers.update(id);
    changed.catch((error: unknown) => {
      log.error({ err: error }, 'deployments of a stack that was removed are kept');
    });
  };
  const parts = { registry, followers, records, forget };
  const local = createStacksApi(parts, ({ service: name = defaultService }) => ({
    kind: 'service',
    name,
  }));
  const api = audited(stackMethods(local), { stacks: local }, host.audit).stacks;
  return {
    api,
    as: (requester, subject) => {
      const stacks = createStacksApi(parts, () => subject);
      return audited(stackMethods(stacks), { stacks }, host.audit, requester).stacks;
    },
    rpc: stackMethods(api),
    metrics: () =>
      meter.families({
        servers: followers.status,
        // Of one member of a cluster, so that nothing is counted twice.
        open: followers.isActive ? records.open : [],
      }),
    dismiss: (minion) => registry.dismiss(minion),
    start: () => {
      codeRunner.goOn();
      if (state.cluster === undefined) followers.begin(closing);
      else state.cluster.onHeld((ended) => followers.begin(AbortSignal.any([ended, closing])));
    },
    close: async () => {
      followers.end();
      await codeRunner.close();
      await followers.done;
    },
  };
}

interface StacksApiParts {
  readonly registry: StackRegistry;
  readonly followers: Pick<StackFollowers, 'statusOf'>;
  readonly records: Pick<DeploymentRecords, 'ofStack'>;
  /** Ends what is done for a stack that was removed; durable when it resolves. */
  readonly forget: (id: string) => Promise<void>;
}

/** @param subjectOf - whose rules hold for what is registered */
function createStacksApi(
  { registry, followers, records, forget }: StacksApiParts,
  subjectOf: (given: StackRegistration) => Subject,
): StacksApi {
  return {
    add: async (given, { owner, replaces = false } = {}) => {
      const registration = parseStackRegistration(given);
      const subject = subjectOf(registration);
      const stack = await registry.add(registration, { owner, subject }, replaces);
      return registry.infoOf(stack);
    },
    list: async ({ owner } = {}) =>
      registry.all
        .filter((it) => owner === undefined || it.owner === owner)
        .map((it) => registry.infoOf(it)),
    show: async (name, { owner } = {}) => {
      const stack = registry.find(name, owner);
      return {
        ...registry.infoOf(stack),
        followed: followers.statusOf(stack.id),
        deployments: records.ofStack(stack.id).slice(-1_000).map(deploymentInfoOf),
      };
    },
    remove: async (name, { owner } = {}) => {
      const stack = await registry.remove(name, owner);
      await forget(stack.id);
      return registry.infoOf(stack);
    },
  };
}

/** Follows all stacks while this process is the one that does so. */
class StackFollowers {
  readonly #registry: Pick<StackRegistry, 'all' | 'get'>;
  readonly #create: (stack: RegisteredStack, ended: AbortSignal) => StackFollower;
  readonly #followers = new Map<string, StackFollower>();
  /** Of what is followed no more, until it has ended. */
  readonly #ending = new Set<Promise<unknown>>();
  #ended: AbortSignal = AbortSignal.abort();

  constructor(
    registry: Pick<StackRegistry, 'all' | 'get'>,
    create: (stack: RegisteredStack, ended: AbortSignal) => StackFollower,
  ) {
    this.#registry = registry;
    this.#create = create;
  }

  get isActive(): boolean {
    return !this.#ended.aborted;
  }

  /** @param ended - fires when another process does it */
  begin(ended: AbortSignal): void {
    this.#ended = ended;
    for (const { id } of this.#registry.all) void this.update(id);
    // Every worker listens to it.
    setMaxListeners(0, ended);
    const end = (): void => {
      if (this.#ended === ended) this.end();
    };
    ended.addEventListener('abort', end, { once: true });
  }

  end(): void {
    for (const id of [...this.#followers.keys()]) void this.#stop(id);
  }

  /** Follows a stack as it is registered now; resolves when it is no longer followed as before. */
  async update(id: string): Promise<void> {
    const stopped = this.#stop(id);
    const stack = this.#registry.get(id);
    if (stack !== undefined && this.isActive) {
      this.#followers.set(id, this.#create(stack, this.#ended));
    }
    await stopped;
  }

  /** How it is with all servers. */
  get status(): readonly ServerStatus[] {
    return [...this.#followers.values()].flatMap(({ status }) => status);
  }

  statusOf(id: string): readonly ServerStatus[] {
    return this.#followers.get(id)?.status ?? [];
  }

  /** Resolves when what is followed no more has ended. */
  get done(): Promise<unknown> {
    return Promise.all(this.#ending);
  }

  async #stop(id: string): Promise<void> {
    const follower = this.#followers.get(id);
    if (follower === undefined) return;
    this.#followers.delete(id);
    follower.stop();
    const ending = follower.done.finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
    await ending;
  }
}

interface StackFollowerDeps {
  readonly worker: ServerWorkerDeps;
  readonly find: () => ReturnType<typeof findServers>;
  readonly intervalMs: number;
}

/** The workers of a stack: of servers that it names, and of those found among its resources. */
class StackFollower {
  readonly #stack: RegisteredStack;
  readonly #deps: StackFollowerDeps;
  readonly #workers = new Map<string, ServerWorker>();
  /** Of servers that are no more, until they have ended. */
  readonly #ending = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  readonly #found: Promise<void>;
  #problem: string | undefined;

  constructor(stack: RegisteredStack, deps: StackFollowerDeps) {
    this.#stack = stack;
    this.#deps = deps;
    for (const server of namedServers(stack)) this.#add(server);
    this.#found = this.#find();
  }

  get done(): Promise<unknown> {
    const workers = [...this.#workers.values()].map(({ done }) => done);
    return Promise.all([this.#found, ...this.#ending, ...workers]);
  }

  get status(): readonly ServerStatus[] {
    const servers = [...this.#workers.values()].map(({ status }) => status);
    if (this.#problem === undefined) return servers;
    return [...servers, { server: '*', serverId: '*', problem: this.#problem }];
  }

  stop(): void {
    this.#stop.abort();
    for (const worker of this.#workers.values()) worker.stop();
  }

  /** Servers come and go: with autoscaling, and with updates. */
  async #find(): Promise<void> {
    if (this.#stack.registration.stack === undefined) return;
    const { closing, random, log } = this.#deps.worker;
    const { find, intervalMs } = this.#deps;
    let wait = Math.min(intervalMs, 1_000) * random();
    for (;;) {
      await sleepUntilAborted(wait, closing, this.#stop.signal);
      if (closing.aborted || this.#stop.signal.aborted) return;
      const found = await find().catch((error: unknown) => {
        log.error({ err: error }, 'servers of a stack were not listed');
        return { ok: false, reason: 'the master failed; see its log' } as const;
      });
      if (closing.aborted || this.#stop.signal.aborted) return;
      if (found.ok) this.#keep(found.servers);
      this.#problem = found.ok ? undefined : found.reason;
      wait = intervalMs * (0.95 + 0.1 * random()) * (found.ok ? 1 : 2);
    }
  }

  #keep(servers: readonly FollowedServer[]): void {
    const wanted = new Set([...namedServers(this.#stack), ...servers].map(({ server }) => server));
    for (const [name, worker] of this.#workers) {
      if (wanted.has(name)) continue;
      worker.stop();
      this.#workers.delete(name);
      const ended = worker.done.finally(() => this.#ending.delete(ended));
      this.#ending.add(ended);
    }
    for (const server of servers) if (!this.#workers.has(server.server)) this.#add(server);
  }

  #add(server: FollowedServer): void {
    this.#workers.set(server.server, new ServerWorker(server, this.#deps.worker));
  }
}

/** A service may repeat what it was asked with. */
function redactSecrets<T extends DeliveryOutcome | ReadResult>(
  outcome: T,
  secrets: readonly string[],
): T {
  if (!('reason' in outcome)) return outcome;
  // protection: talking-heat
  const reason = secrets.reduce((text, it) => text.replaceAll(it, '(secret)'), outcome.reason);
  return { ...outcome, reason };
}

function secretsOfLogin(login: OwnerLogin | undefined): readonly string[] {
  if (login === undefined) return [];
  return ['password' in login ? login.password : login.application_credential_secret];
}

function secretsOfSource({ collect, login }: ServerSource): readonly string[] {
  const url = collect?.request?.metadata_url;
  return [
    ...secretsOfLogin(login),
    ...[collect?.heat?.password, collect?.zaqar?.password, collect?.cfn?.secret_access_key].filter(
      (it) => it !== undefined,
    ),
    ...(url === undefined ? [] : secretsOf({ transport: 'TEMP_URL_SIGNAL', url })),
  ];
}

function fireEnd(
  host: ExtensionHost,
  { registration }: RegisteredStack,
  { id, server, minion, name, action, end = 'failed' }: DeploymentRecord,
): void {
  const stack = registration.name;
  const what = { id, stack, server, minion, name, action: action ?? null, end };
  host.fire(`deployment/${end}`, what);
}
